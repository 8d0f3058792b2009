package shop;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A shop that books drone deliveries with Sagalog. It relies only on events/FORMAT.md and on Kafka's own Java client.
 *
 * <pre>
 * shop.Shop submit BROKERS NAMESPACE PREFIX          every way to write a submission, repeats, and conflicts
 * shop.Shop transact BROKERS NAMESPACE PREFIX        an order and its submission in one transaction
 * shop.Shop open BROKERS NAMESPACE PREFIX TIMEOUT    leaves a transaction open until "commit" or "abort" on standard input,
 *                                                    and writes another submission after it, unless "alone" follows
 * </pre>
 *
 * PREFIX begins the IDs of its tasks. Each line of its output is a JSON object about something that it did.
 */
public final class Shop {
    /** A task ID may have slashes, spaces, quotes, percent signs, letters of any script, and characters beyond 16 bits. */
    private static final List<String> IDS =
        List.of("order-1", "2026/07 order 1", "Grüße an/Zoë", "注文 №7/東京", "заказ \"8\" 100%", "🚁/٣");
    /** More IDs, for all partitions. */
    private static final int PLENTY = 16;
    /** The shop's own topic, which the engine does not know. */
    private static final String ORDERS = "orders";

    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private final String brokers;
    private final String submissions;
    private final String namespace;
    private final String prefix;

    private record Task(int number, Form form) {}

    private Shop(String brokers, String namespace, String prefix) {
        this.brokers = brokers;
        this.namespace = namespace;
        this.prefix = prefix;
        this.submissions = namespace + ".submissions";
    }

    public static void main(String[] args) throws Exception {
        Shop shop = new Shop(args[1], args[2], args[3]);
        switch (args[0]) {
            case "submit" -> shop.submit();
            case "transact" -> shop.transact();
            case "open" -> shop.leaveOpen(args[4], args.length > 5);
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private void submit() throws Exception {
        Map<String, Task> tasks = new LinkedHashMap<>();
        for (Form form : Form.values()) {
            for (int n = 0; n < IDS.size(); n++) {
                tasks.put(prefix + form.label() + "/" + IDS.get(n), new Task(n, form));
            }
        }
        for (int n = 0; n < PLENTY; n++) {
            tasks.put(prefix + "more-" + n, new Task(n, Form.PLAIN));
        }
        // With the client's own partitioner, which knows the home of each key.
        try (KafkaProducer<String, byte[]> producer = producer(Map.of()); History history = new History(brokers, namespace)) {
            for (var e : tasks.entrySet()) {
                handIn(producer, history, "first", e.getKey(), Form.content(e.getValue().number), e.getValue().form);
            }
            for (String task : tasks.keySet()) {
                say("act", "end", "task", task, "facts", history.end(task));
            }
            int n = 0;
            for (var e : tasks.entrySet()) {
                if (e.getKey().startsWith(prefix + "more-")) {
                    continue;
                }
                int number = e.getValue().number;
                handIn(producer, history, "again", e.getKey(), Form.content(number), Form.values()[n++ % 3]);
                handIn(producer, history, "other", e.getKey(), Form.content(number + 100), Form.values()[n % 3]);
            }
            ObjectNode typo = Form.content(1);
            typo.putObject("lables");
            handIn(producer, history, "typo", prefix + "typo", typo, Form.PLAIN);
            for (String task : tasks.keySet()) {
                say("act", "after", "task", task, "facts", history.tasks.get(task));
            }
            say("act", "done", "void", history.voids);
        }
    }

    private void handIn(KafkaProducer<String, byte[]> producer, History history, String act, String task, ObjectNode content, Form form)
        throws Exception {
        ProducerRecord<String, byte[]> record = form.record(submissions, null, task, content);
        RecordMetadata at = send(producer, record);
        History.Outcome outcome = history.outcome(at.partition(), at.offset());
        Map<String, Object> said = line("act", act, "form", form.label(), "task", task, "outcome", outcome.kind(),
            "forwarded", !outcome.at().equals(at.partition() + "/" + at.offset()));
        if (outcome.kind().equals("InputRejected")) {
            ConsumerRecord<String, byte[]> letter = history.letter(outcome.at());
            said.put("reason", History.text(letter, "__dlq.errors.reason"));
            said.put("message", History.text(letter, "__dlq.errors.message"));
            said.put("topic", History.text(letter, "__dlq.errors.topic"));
            said.put("untouched", Arrays.equals(letter.value(), record.value()) && task.equals(letter.key()));
        }
        OUT.println(History.JSON.writeValueAsString(said));
    }

    private void transact() throws Exception {
        try (KafkaProducer<String, byte[]> books = books(Map.of()); KafkaProducer<String, byte[]> other = producer(Map.of());
             History history = new History(brokers, namespace)) {
            for (int n = 0; n < 4; n++) {
                String kept = prefix + "kept-" + n;
                RecordMetadata at = write(books, kept);
                books.commitTransaction();
                say("act", "committed", "task", kept, "outcome", history.outcome(at.partition(), at.offset()).kind(), "facts", history.end(kept));
                at = writeAndAbort(books, prefix + "dropped-" + n);

                // This comes after the marker, from a producer without transactions. Nothing is held back any more.
                String behind = prefix + "behind-" + n;
                at = send(other, Form.PLAIN.record(submissions, at.partition(), behind, Form.content(2)));
                say("act", "behind", "task", behind, "outcome", history.outcome(at.partition(), at.offset()).kind(), "facts", history.end(behind));
            }
            // The aborted submission again, now committed, is the first one that counts. Then it is repeated in a transaction.
            for (int n = 0; n < 2; n++) {
                String again = prefix + "dropped-0";
                RecordMetadata at = write(books, again);
                books.commitTransaction();
                say("act", "retried", "task", again, "outcome", history.outcome(at.partition(), at.offset()).kind(), "facts", history.end(again));
            }
            // The last record of the partition is now a marker of an abort.
            writeAndAbort(books, prefix + "last");
            say("act", "done", "void", history.voids);
        }
    }

    /** Writes an order and its submission inside a transaction that begins here, and returns the place of the submission. */
    private RecordMetadata write(KafkaProducer<String, byte[]> books, String task) throws Exception {
        books.beginTransaction();
        send(books, new ProducerRecord<>(ORDERS, task, Form.bytes(History.JSON.createObjectNode().put("order", task).put("state", "placed"))));
        return send(books, Form.BINARY.record(submissions, null, task, Form.content(1)));
    }

    private RecordMetadata writeAndAbort(KafkaProducer<String, byte[]> books, String task) throws Exception {
        RecordMetadata at = write(books, task);
        books.abortTransaction();
        say("act", "aborted", "task", task, "partition", at.partition(), "offset", at.offset());
        return at;
    }

    private void leaveOpen(String timeout, boolean alone) throws Exception {
        String inside = prefix + "inside";
        String behind = prefix + "behind";
        try (KafkaProducer<String, byte[]> books = books(Map.of("transaction.timeout.ms", timeout));
             KafkaProducer<String, byte[]> other = producer(Map.of())) {
            RecordMetadata at = write(books, inside);
            RecordMetadata later = alone ? at : send(other, Form.PLAIN.record(submissions, at.partition(), behind, Form.content(2)));
            say("act", "open", "task", inside, "behind", behind, "partition", at.partition(), "offset", at.offset(), "later", later.offset());
            String end = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).readLine();
            if ("commit".equals(end)) {
                books.commitTransaction();
            } else {
                books.abortTransaction();
            }
            say("act", end);
        }
    }

    private KafkaProducer<String, byte[]> producer(Map<String, String> more) {
        Properties config = new Properties();
        config.put("bootstrap.servers", brokers);
        config.put("linger.ms", "0");
        config.putAll(more);
        return new KafkaProducer<>(config, new StringSerializer(), new ByteArraySerializer());
    }

    private KafkaProducer<String, byte[]> books(Map<String, String> more) {
        Map<String, String> config = new LinkedHashMap<>(more);
        config.put("transactional.id", prefix + "books");
        KafkaProducer<String, byte[]> books = producer(config);
        books.initTransactions();
        return books;
    }

    private static RecordMetadata send(KafkaProducer<String, byte[]> producer, ProducerRecord<String, byte[]> record) throws Exception {
        return producer.send(record).get(History.PATIENCE.toSeconds(), TimeUnit.SECONDS);
    }

    private static Map<String, Object> line(Object... pairs) {
        Map<String, Object> line = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            line.put((String) pairs[i], pairs[i + 1]);
        }
        return line;
    }

    private static void say(Object... pairs) throws Exception {
        OUT.println(History.JSON.writeValueAsString(line(pairs)));
    }
}
