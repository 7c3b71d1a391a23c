//go:build etcd

package main

import (
	"context"
	"math"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

type mutex struct{ lock *concurrency.Mutex }

// Connects, and returns a function that makes locks by etcd's recipe. A mutex's key has the name of
// its session, so two mutexes of one session with the same prefix are the same mutex. So each task
// has a separate session.
func connect(plan plan) func(number int) lock {
	// The URL after the comma is that of a Redis.
	etcd, _, _ := strings.Cut(plan.url, ",")
	address, err := url.Parse(etcd)
	check(err)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{address.Host}, DialTimeout: plan.patience})
	check(err)
	ttl := int(math.Ceil(plan.ttl.Seconds()))
	mutexes := make([]mutex, plan.tasks)
	for number := range mutexes {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
		check(err)
		mutexes[number] = mutex{concurrency.NewMutex(session, "/bench/"+plan.key(number))}
	}
	return func(number int) lock { return mutexes[number] }
}

func (mutex mutex) take(waiting context.Context) error { return mutex.lock.Lock(waiting) }

func (mutex mutex) release() error {
	bounded, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return mutex.lock.Unlock(bounded)
}
