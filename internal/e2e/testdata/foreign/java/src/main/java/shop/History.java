package shop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Reads {@code <ns>.events} as events/FORMAT.md says under "Reading the log": which facts count, and the outcome of an
 * input. It also reads the inputs that were sent home, and the dead letters of submissions.
 */
final class History implements AutoCloseable {
    /** Bounds each wait. The engine takes milliseconds. */
    static final Duration PATIENCE = Duration.ofSeconds(90);

    private static final Set<String> ENDS = Set.of("TaskProcessed", "TaskUndone", "TaskParked");
    static final ObjectMapper JSON = new ObjectMapper();

    /** The outcome of a submission: the name of its fact, or "duplicate", and the place where it was judged. */
    record Outcome(String kind, String at) {}

    private record Fact(String kind, JsonNode body) {}

    final String submissions;
    private final String events;
    private final String dead;
    private final KafkaConsumer<String, byte[]> consumer;
    private final Map<Integer, Epochs> epochs = new HashMap<>();
    /** For each partition, the offset of its first submission that is not judged yet. */
    private final Map<Integer, Long> judged = new HashMap<>();
    /** The kinds of the facts of each task. */
    final Map<String, List<String>> tasks = new HashMap<>();
    /** Facts by their cause. */
    private final Map<String, List<Fact>> caused = new HashMap<>();
    /** The place of the copy that was sent home, by the "partition/offset" where the input was found. */
    private final Map<String, String> homes = new HashMap<>();
    /** Dead letters by "partition/offset" of the rejected input. */
    private final Map<String, ConsumerRecord<String, byte[]>> letters = new HashMap<>();
    int voids;

    History(String brokers, String namespace) {
        events = namespace + ".events";
        submissions = namespace + ".submissions";
        dead = "dlq." + namespace + ".submissions";
        Properties config = new Properties();
        config.put("bootstrap.servers", brokers);
        config.put("isolation.level", "read_committed");
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        consumer = new KafkaConsumer<>(config, new StringDeserializer(), new ByteArrayDeserializer());
        List<TopicPartition> all = new ArrayList<>();
        for (String topic : List.of(events, submissions, dead)) {
            consumer.partitionsFor(topic).forEach(p -> all.add(new TopicPartition(topic, p.partition())));
        }
        consumer.assign(all);
        consumer.seekToBeginning(all);
    }

    @Override
    public void close() {
        consumer.close();
    }

    /** Returns the outcome of the submission at this place. If it was sent home, this is the outcome of the copy. */
    Outcome outcome(int partition, long offset) {
        until("submission " + partition + "/" + offset + " is judged",
            () -> judged.getOrDefault(partition, 0L) > offset ? true : null);
        String here = partition + "/" + offset;
        for (Fact fact : caused.getOrDefault("s/" + here, List.of())) {
            if (!fact.kind.equals("InputForwarded")) {
                return new Outcome(fact.kind, here);
            }
            String[] home = until("submission " + here + " comes home", () -> homes.get(here)).split("/");
            return outcome(Integer.parseInt(home[0]), Long.parseLong(home[1]));
        }
        return new Outcome("duplicate", here);
    }

    /** Returns the dead letter of the submission that was rejected at "partition/offset". */
    ConsumerRecord<String, byte[]> letter(String at) {
        return until("the dead letter of " + at, () -> letters.get(at));
    }

    /** Returns the facts of a task once it has ended. */
    List<String> end(String task) {
        return until("task " + task + " ends", () -> {
            List<String> facts = tasks.getOrDefault(task, List.of());
            return facts.stream().anyMatch(ENDS::contains) ? facts : null;
        });
    }

    /** Reads until the supplier returns something. */
    private <T> T until(String what, Supplier<T> find) {
        Instant deadline = Instant.now().plus(PATIENCE);
        for (T found = find.get(); ; found = find.get()) {
            if (found != null) {
                return found;
            }
            if (Instant.now().isAfter(deadline)) {
                throw new IllegalStateException("timed out after " + PATIENCE + ": " + what);
            }
            consumer.poll(Duration.ofMillis(200)).forEach(this::read);
        }
    }

    private void read(ConsumerRecord<String, byte[]> record) {
        if (record.topic().equals(submissions)) {
            String found = text(record, "sagalog-forwarded-from");
            if (!found.isEmpty()) {
                homes.put(found, record.partition() + "/" + record.offset());
            }
            return;
        }
        if (record.topic().equals(dead)) {
            letters.put(text(record, "__dlq.errors.partition") + "/" + text(record, "__dlq.errors.offset"), record);
            return;
        }
        String kind = text(record, "ce_type").replaceFirst("^sagalog\\.", "");
        if (!epochs.computeIfAbsent(record.partition(), p -> new Epochs()).accepts(kind, record)) {
            voids++;
            return;
        }
        fact(record, kind, json(record));
    }

    private void fact(ConsumerRecord<String, byte[]> record, String kind, JsonNode body) {
        if (record.key() != null) {
            tasks.computeIfAbsent(record.key(), k -> new ArrayList<>()).add(kind);
        }
        String cause = text(record, "ce_cause");
        long passed = 0;
        if (kind.equals("InputsPassed")) {
            passed = body.path("inputs").path("submissions").path("next").asLong(0);
        } else if (cause.startsWith("s/")) {
            caused.computeIfAbsent(cause, c -> new ArrayList<>()).add(new Fact(kind, body));
            passed = Long.parseLong(cause.substring(cause.lastIndexOf('/') + 1)) + 1;
        }
        judged.merge(record.partition(), passed, Math::max);
    }

    /** Returns the last header of this key; if there is none, the empty text. */
    static String text(ConsumerRecord<String, byte[]> record, String key) {
        Header header = record.headers().lastHeader(key);
        return header == null || header.value() == null ? "" : new String(header.value(), StandardCharsets.UTF_8);
    }

    private static JsonNode json(ConsumerRecord<String, byte[]> record) {
        try {
            return JSON.readTree(record.value());
        } catch (IOException e) {
            throw new IllegalStateException(record.topic() + " has no JSON at offset " + record.offset(), e);
        }
    }

    /** The rule of void records, for one partition. */
    private static final class Epochs {
        private String ident = "";
        private long ordinal;
        private long next;
        private boolean broken;

        boolean accepts(String kind, ConsumerRecord<String, byte[]> record) {
            if (kind.equals("PartitionClaimed")) {
                JsonNode claim = json(record);
                String id = claim.path("id").asText();
                if (!claim.path("prev").asText().equals(ident) || id.isEmpty() || id.equals(ident)) {
                    return false;
                }
                ident = id;
                ordinal++;
                next = 0;
                broken = false;
                return true;
            }
            String id = text(record, "ce_id"); // <partition>/<epoch>/<sequence>
            int last = id.lastIndexOf('/');
            if (ordinal == 0 || !id.substring(id.indexOf('/') + 1, last).equals(ordinal + "-" + ident)) {
                return false;
            }
            long sequence = Long.parseLong(id.substring(last + 1));
            boolean accepted = !broken && sequence == next;
            broken |= sequence > next;
            if (accepted) {
                next++;
            }
            return accepted;
        }
    }
}
