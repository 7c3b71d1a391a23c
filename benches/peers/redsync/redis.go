//go:build !etcd

package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

func client(plan plan) *redis.Client {
	options, err := redis.ParseURL(plan.url)
	check(err)
	client := redis.NewClient(options)
	check(client.Ping(context.Background()).Err())
	return client
}
