package shop;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import org.apache.kafka.clients.producer.ProducerRecord;

/** The three ways to write a submission. */
enum Form {
    PLAIN, BINARY, STRUCTURED;

    /** Writes a submission of a task. Its partition is null if the partitioner chooses. */
    ProducerRecord<String, byte[]> record(String topic, Integer partition, String task, ObjectNode content) {
        ObjectNode value = content;
        if (this == STRUCTURED) {
            value = History.JSON.createObjectNode();
            value.put("specversion", "1.0").put("id", UUID.randomUUID().toString()).put("source", "/shop");
            value.put("type", "sagalog.submission").put("subject", task).set("data", content);
        }
        ProducerRecord<String, byte[]> record = new ProducerRecord<>(topic, partition, task, bytes(value));
        switch (this) {
            case PLAIN -> { }
            case BINARY -> {
                header(record, "ce_specversion", "1.0");
                header(record, "ce_id", UUID.randomUUID().toString());
                header(record, "ce_source", "/shop");
                header(record, "ce_type", "sagalog.submission");
                header(record, "ce_subject", task);
                header(record, "content-type", "application/json");
            }
            case STRUCTURED -> header(record, "content-type", "application/cloudevents+json; charset=utf-8");
        }
        return record;
    }

    String label() {
        return name().toLowerCase(java.util.Locale.ROOT);
    }

    /** The content of a delivery. Different numbers give different content. */
    static ObjectNode content(int number) {
        ObjectNode content = History.JSON.createObjectNode().put("workflow", "drone-delivery");
        content.putObject("labels").put("shop", "java");
        ObjectNode input = content.putObject("input").put("ownerId", "owner-" + number);
        input.putObject("packageInfo").put("size", "small").put("weight", 1.5);
        input.putObject("pickup").put("region", "north");
        input.putObject("dropoff").put("region", "north");
        return content;
    }

    static byte[] bytes(ObjectNode value) {
        try {
            return History.JSON.writeValueAsBytes(value);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void header(ProducerRecord<String, byte[]> record, String key, String value) {
        record.headers().add(key, value.getBytes(StandardCharsets.UTF_8));
    }
}
