//go:build redislock

package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
)

type mutex struct {
	locks *redislock.Client
	key   string
	ttl   time.Duration
	held  *redislock.Lock
}

// Connects, and returns a function that makes locks of redislock. By default it tries only once.
// Here it has the back-off of its README, a new attempt every 100 ms.
func connect(plan plan) func(number int) lock {
	locks := redislock.New(client(plan))
	return func(number int) lock { return &mutex{locks: locks, key: plan.key(number), ttl: plan.ttl} }
}

func (mutex *mutex) take(waiting context.Context) (err error) {
	backoff := redislock.LinearBackoff(100 * time.Millisecond)
	mutex.held, err = mutex.locks.Obtain(waiting, mutex.key, mutex.ttl, &redislock.Options{RetryStrategy: backoff})
	return err
}

func (mutex *mutex) release() error { return mutex.held.Release(context.Background()) }
