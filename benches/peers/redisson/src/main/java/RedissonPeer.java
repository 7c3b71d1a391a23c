import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson's lock with its defaults, where a waiter is told of a release by a message. */
final class RedissonPeer {
    private record Mutex(RLock lock, long ttl) implements Client.Lock {
        @Override
        public boolean take(long patience) throws InterruptedException {
            return lock.tryLock(patience, ttl, TimeUnit.MILLISECONDS);
        }

        @Override
        public void release() {
            lock.unlock();
        }
    }

    public static void main(String[] arguments) throws Exception {
        Client.main(arguments, RedissonPeer::connect);
    }

    private static Client.Locks connect(String url, long ttl) {
        Config config = new Config();
        config.useSingleServer().setAddress(url.replaceAll("/$", ""));
        RedissonClient client = Redisson.create(config);
        return key -> new Mutex(client.getLock(key), ttl);
    }
}
