import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;

/** A client of a lock library for Java, with a thread for each task. The protocol is in benches/peers/README.md. */
final class Client {
    /** A lock of either library. Each task has one of its own. */
    interface Lock {
        /** Returns false if the lock was not free within {@code patience} ms. */
        boolean take(long patience) throws Exception;

        void release() throws Exception;
    }

    /** Makes locks. */
    interface Locks {
        Lock lock(String key);
    }

    /** Connects to the servers of the URL, for locks that last {@code ttl} ms without a renewal. */
    interface Library {
        Locks connect(String url, long ttl) throws Exception;
    }

    private final String work;
    private final int tasks;
    private final long ttl;
    private final long section;
    private final long think;
    private final long patience;
    private final long run;
    private final Path file;
    private final Queue<String> errors = new ConcurrentLinkedQueue<>();

    private Client(String[] arguments) {
        work = arguments[1];
        tasks = Integer.parseInt(arguments[2]);
        ttl = Long.parseLong(arguments[3]);
        run = Long.parseLong(arguments[4]) + Long.parseLong(arguments[5]);
        section = Long.parseLong(arguments[6]);
        think = Long.parseLong(arguments[7]);
        patience = Long.parseLong(arguments[8]);
        file = Path.of(arguments[9]);
    }

    static void main(String[] arguments, Library library) throws Exception {
        Client client = new Client(arguments);
        Locks locks = library.connect(arguments[0], client.ttl);
        // The JVM compiles code that runs often, and must compile the measured code before.
        client.warmUp(locks);
        System.out.println("ready");
        String line = new BufferedReader(new InputStreamReader(System.in)).readLine();
        long start = Long.parseLong(line.replace("go ", ""));
        TimeUnit.NANOSECONDS.sleep(Math.max(0, start - System.nanoTime()));
        client.run(locks, start);
        System.out.flush();
        // Does not wait for tasks that are still waiting.
        Runtime.getRuntime().halt(0);
    }

    /** The same with keys of this process, for as long as warm-up and window last, at most 3 s. */
    private void warmUp(Locks locks) throws InterruptedException {
        long length = Math.min(TimeUnit.MILLISECONDS.toNanos(run), TimeUnit.SECONDS.toNanos(3));
        String prefix = "warm" + ProcessHandle.current().pid();
        for (Thread thread : start(locks, prefix, new ArrayList<>(), System.nanoTime() + length)) {
            thread.join();
        }
    }

    private List<Thread> start(Locks locks, String prefix, List<Log> logs, long end) {
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < tasks; number++) {
            String key = prefix + (work.equals("hot") ? "hot" : "key" + number);
            Lock lock = locks.lock(key);
            Log log = new Log(number);
            Thread thread = new Thread(() -> task(key, lock, log, end));
            thread.start();
            threads.add(thread);
            logs.add(log);
        }
        return threads;
    }

    private void run(Locks locks, long start) throws Exception {
        long end = start + TimeUnit.MILLISECONDS.toNanos(run);
        List<Log> logs = new ArrayList<>();
        List<Thread> threads = start(locks, "", logs, end);
        long limit = end + TimeUnit.MILLISECONDS.toNanos(patience);
        int lost = 0;
        for (Thread thread : threads) {
            thread.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(limit - System.nanoTime())));
            lost += thread.isAlive() ? 1 : 0;
        }
        write(logs);
        report(lost + errors.size());
    }

    private void task(String key, Lock lock, Log log, long end) {
        try {
            for (long asked = System.nanoTime(); asked < end; asked = System.nanoTime()) {
                if (!lock.take(patience)) {
                    throw new IllegalStateException(key + " was not free within " + patience + " ms");
                }
                long entered = System.nanoTime();
                if (section > 0) {
                    Thread.sleep(section);
                }
                long left = System.nanoTime();
                lock.release();
                log.add(asked, entered, left, System.nanoTime());
                if (think > 0) {
                    Thread.sleep(think);
                }
            }
        } catch (Exception error) {
            errors.add(error.toString());
        }
    }

    private void write(List<Log> logs) throws IOException {
        try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(file))) {
            for (Log log : logs) {
                out.write(log.bytes());
            }
        }
    }

    private void report(int lost) {
        StringBuilder json = new StringBuilder("{\"lost\":" + lost + ",\"errors\":[");
        String between = "";
        for (String error : errors.stream().limit(5).toList()) {
            json.append(between).append('"').append(error.replaceAll("[\"\\\\\\p{Cntrl}]", " ")).append('"');
            between = ",";
        }
        System.out.println(json.append("]}"));
    }

    /** The records of one task. A task that is never served still adds nothing while they are written. */
    private static final class Log {
        private final int number;
        private long[] stamps = new long[4096];
        private volatile int count;

        Log(int number) {
            this.number = number;
        }

        void add(long asked, long entered, long left, long released) {
            int at = count;
            if (at + 4 > stamps.length) {
                stamps = Arrays.copyOf(stamps, stamps.length * 2);
            }
            stamps[at] = asked;
            stamps[at + 1] = entered;
            stamps[at + 2] = left;
            stamps[at + 3] = released;
            count = at + 4;
        }

        byte[] bytes() {
            ByteBuffer bytes = ByteBuffer.allocate(count / 4 * 40).order(ByteOrder.LITTLE_ENDIAN);
            for (int at = 0; at < count; at += 4) {
                bytes.putLong(number);
                for (int field = 0; field < 4; field++) {
                    bytes.putLong(stamps[at + field]);
                }
            }
            return bytes.array();
        }
    }
}
