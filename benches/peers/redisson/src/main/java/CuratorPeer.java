import java.net.URI;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's lock with the retries of its guide. A session that lasts as long as a ttl has all locks of the process. */
final class CuratorPeer {
    private record Mutex(InterProcessMutex lock) implements Client.Lock {
        @Override
        public boolean take(long patience) throws Exception {
            return lock.acquire(patience, TimeUnit.MILLISECONDS);
        }

        @Override
        public void release() throws Exception {
            lock.release();
        }
    }

    public static void main(String[] arguments) throws Exception {
        Client.main(arguments, CuratorPeer::connect);
    }

    private static Client.Locks connect(String url, long ttl) throws InterruptedException {
        // Behind the comma is a Redis.
        String servers = URI.create(url.split(",")[0]).getAuthority();
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(servers)
                .sessionTimeoutMs((int) ttl)
                .retryPolicy(new ExponentialBackoffRetry(1_000, 3))
                .build();
        client.start();
        client.blockUntilConnected();
        return key -> new Mutex(new InterProcessMutex(client, "/bench/" + key));
    }
}
