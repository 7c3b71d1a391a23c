//go:build !redislock

package main

import (
	"context"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

type mutex struct{ lock *redsync.Mutex }

// The maker of locks: redsync with its defaults, a new try after 50 to 250 ms, here without a bound on their number.
func locks(client *redis.Client, ttl time.Duration) func(key string) mutex {
	locks := redsync.New(goredis.NewPool(client))
	return func(key string) mutex {
		return mutex{locks.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(math.MaxInt32))}
	}
}

func (mutex mutex) take(waiting context.Context) error { return mutex.lock.LockContext(waiting) }

func (mutex mutex) release() error {
	_, err := mutex.lock.Unlock()
	return err
}
