//go:build !redislock && !etcd

package main

import (
	"context"
	"math"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
)

type mutex struct{ lock *redsync.Mutex }

// Connects, and returns a function that makes locks of redsync with its defaults: a new attempt
// after 50 to 250 ms. The number of attempts is not limited here.
func connect(plan plan) func(number int) lock {
	locks := redsync.New(goredis.NewPool(client(plan)))
	return func(number int) lock {
		return mutex{locks.NewMutex(plan.key(number), redsync.WithExpiry(plan.ttl), redsync.WithTries(math.MaxInt32))}
	}
}

func (mutex mutex) take(waiting context.Context) error { return mutex.lock.LockContext(waiting) }

func (mutex mutex) release() error {
	_, err := mutex.lock.Unlock()
	return err
}
