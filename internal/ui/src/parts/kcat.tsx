import type { JSX } from "preact";
import { Copy } from "./json";

/** A button that copies the line of kcat that reads one record. The API does not say where the brokers are. */
export function KcatLine({ topic, partition, offset }: { topic: string; partition: number; offset: number }): JSX.Element {
  return <Copy text={`kcat -C -b BROKER -t ${topic} -p ${partition} -o ${offset} -c 1`} what={`the kcat line of ${topic} ${partition}@${offset}, with BROKER for the address of a broker`} says="copy the kcat line" />;
}
