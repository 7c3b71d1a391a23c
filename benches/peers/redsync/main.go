// A client of a lock library for Go: redsync, or redislock or etcd's own with a build tag. The
// protocol is in benches/peers/README.md.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

type plan struct {
	url, work, file                               string
	tasks                                         int
	ttl, warmup, window, section, think, patience time.Duration
}

// A lock of any of these libraries.
type lock interface {
	take(waiting context.Context) error
	release() error
}

func (plan plan) key(number int) string {
	if name, is := strings.CutPrefix(plan.work, "key:"); is {
		return name
	}
	if plan.work == "hot" {
		return "hot"
	}
	return fmt.Sprintf("key%d", number)
}

type record struct{ Task, Asked, Entered, Left, Released uint64 }

func main() {
	plan := parse(os.Args[1:])
	locks := connect(plan)
	fmt.Println("ready")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	check(err)
	start, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(line, "go ")), 10, 64)
	check(err)
	time.Sleep(time.Duration(int64(start) - int64(now())))
	run(plan, locks, start+uint64(plan.warmup+plan.window))
}

func parse(arguments []string) plan {
	if len(arguments) != 10 {
		check(fmt.Errorf("10 arguments are needed, not %d; benches/peers/README.md lists them", len(arguments)))
	}
	number := func(place int) int {
		value, err := strconv.Atoi(arguments[place])
		check(err)
		return value
	}
	millis := func(place int) time.Duration { return time.Duration(number(place)) * time.Millisecond }
	return plan{
		url: arguments[0], work: arguments[1], tasks: number(2), file: arguments[9],
		ttl: millis(3), warmup: millis(4), window: millis(5), section: millis(6), think: millis(7), patience: millis(8),
	}
}

// Result of a task.
type ended struct {
	log []record
	err error
}

func run(plan plan, lock func(number int) lock, end uint64) {
	ends := make(chan ended, plan.tasks)
	for number := range plan.tasks {
		go func() { ends <- task(plan, lock(number), number, end) }()
	}
	limit, stop := context.WithTimeout(context.Background(), plan.warmup+plan.window+plan.patience+time.Second)
	defer stop()
	errors := []string{}
	var records []record
	lost := plan.tasks
	for range plan.tasks {
		select {
		case one := <-ends:
			records = append(records, one.log...)
			if one.err == nil {
				lost--
			} else if len(errors) < 5 {
				errors = append(errors, one.err.Error())
			}
		case <-limit.Done():
		}
	}
	write(plan.file, records)
	report, err := json.Marshal(map[string]any{"lost": lost, "errors": errors})
	check(err)
	fmt.Println(string(report))
}

func task(plan plan, lock lock, number int, end uint64) ended {
	var log []record
	for asked := now(); asked < end; asked = now() {
		entered, left, err := section(plan, lock)
		if err != nil {
			return ended{log, err}
		}
		log = append(log, record{uint64(number), asked, entered, left, now()})
		time.Sleep(plan.think)
	}
	return ended{log, nil}
}

func section(plan plan, lock lock) (entered, left uint64, err error) {
	waiting, cancel := context.WithTimeout(context.Background(), plan.patience)
	err = lock.take(waiting)
	cancel()
	if err != nil {
		return 0, 0, err
	}
	entered = now()
	time.Sleep(plan.section)
	left = now()
	return entered, left, lock.release()
}

func write(path string, records []record) {
	file, err := os.Create(path)
	check(err)
	buffer := bufio.NewWriter(file)
	check(binary.Write(buffer, binary.LittleEndian, records))
	check(buffer.Flush())
	check(file.Close())
}

// Returns the time of the clock that all processes share.
func now() uint64 {
	var time unix.Timespec
	check(unix.ClockGettime(unix.CLOCK_MONOTONIC, &time))
	return uint64(time.Nano())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
