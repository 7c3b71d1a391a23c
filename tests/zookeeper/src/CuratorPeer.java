import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Takes one of Curator's locks again and again, and gives a section up when Curator tells that the
 * lock may be gone.
 *
 * <p>Arguments: the servers, the lock's path, the session's timeout, for how long to go on, how long
 * to stay inside, and the pause between two sections; all times in milliseconds.
 *
 * <p>Each event is a line with its stamp of CLOCK_MONOTONIC in nanoseconds: {@code ready}, {@code
 * begin}, and {@code end} or {@code lost}. The last line is {@code done}. A process that is killed
 * has told of each section that it began.
 */
public final class CuratorPeer {
    private final long stay;
    private boolean connected;
    /** How often the connection has ended. */
    private long losses;

    private CuratorPeer(long stay) {
        this.stay = stay;
    }

    public static void main(String[] arguments) throws Exception {
        int session = Integer.parseInt(arguments[2]);
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(Long.parseLong(arguments[3]));
        CuratorPeer peer = new CuratorPeer(Long.parseLong(arguments[4]));
        long pause = Long.parseLong(arguments[5]);
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(arguments[0])
                .sessionTimeoutMs(session)
                .connectionTimeoutMs(session)
                .retryPolicy(new ExponentialBackoffRetry(50, 20, 1_000))
                .build();
        client.getConnectionStateListenable().addListener((of, state) -> peer.changed(state));
        client.start();
        client.blockUntilConnected();
        tell("ready");
        InterProcessMutex mutex = new InterProcessMutex(client, arguments[1]);
        while (System.nanoTime() < end) {
            peer.section(mutex);
            Thread.sleep(pause);
        }
        client.close();
        tell("done");
    }

    private synchronized void changed(ConnectionState state) {
        connected = state.isConnected();
        if (!connected) {
            losses++;
            notifyAll();
        }
    }

    private synchronized long losses() {
        return losses;
    }

    private void section(InterProcessMutex mutex) throws Exception {
        long before = losses();
        try {
            mutex.acquire();
        } catch (Exception error) {
            // There was no server for longer than the retries last.
            System.err.println("not acquired: " + error);
            return;
        }
        // A lock that was asked for over an earlier connection may be gone.
        if (isStill(before)) {
            tell("begin");
            tell(staysInside(before) ? "end" : "lost");
        }
        try {
            mutex.release();
        } catch (Exception error) {
            // Curator goes on deleting the node, or it has ended with its session.
            System.err.println("not released: " + error);
        }
    }

    private synchronized boolean isStill(long before) {
        return connected && losses == before;
    }

    /** Returns false at once when the lock may be gone. */
    private synchronized boolean staysInside(long before) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(stay);
        while (isStill(before)) {
            long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
            if (left <= 0) {
                return true;
            }
            wait(left);
        }
        return false;
    }

    /** Writes the line of an event. It is one write, so a kill tears no line. */
    private static void tell(String event) {
        System.out.println(event + " " + System.nanoTime());
    }
}
