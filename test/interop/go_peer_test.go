//go:build unix

package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// goPeer is the environment variable that makes this program a peer with the library that it names; the arguments are the URL of the server and the
// key of a lock with * in the place of its name. The requests are those of test/java's Peer, but bench.
const goPeer = "SOLOIST_TEST_GO_PEER"

// A library locks a key. Neither of its functions waits longer than it is told; ErrRefused reports that another has the key.
type library func(ctx context.Context, key string, atMost, wait time.Duration) (held, error)

// held is what a library has locked.
type held interface {
	extend(ctx context.Context, atMost time.Duration) error
	unlock(ctx context.Context) error
}

// pause is how long libraries wait between two attempts.
const pause = 5 * time.Millisecond

// withRedsync locks with redsync on one pool.
func withRedsync(client *redis.Client) library {
	sync := redsync.New(goredis.NewPool(client))
	return func(ctx context.Context, key string, atMost, wait time.Duration) (held, error) {
		m := sync.NewMutex(key, redsync.WithExpiry(atMost), redsync.WithTries(1+int(wait/pause)), redsync.WithRetryDelay(pause))
		var taken *redsync.ErrTaken
		if err := m.LockContext(ctx); errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
			return nil, ErrRefused
		} else if err != nil {
			return nil, err
		}
		return redsyncLock{sync, m}, nil
	}
}

type redsyncLock struct {
	sync  *redsync.Redsync
	mutex *redsync.Mutex
}

func (l redsyncLock) extend(ctx context.Context, atMost time.Duration) error {
	same := l.sync.NewMutex(l.mutex.Name(), redsync.WithExpiry(atMost), redsync.WithValue(l.mutex.Value())) // the expiry is the mutex's
	if done, err := same.ExtendContext(ctx); !done {
		return errors.Join(ErrRefused, err)
	}
	return nil
}

func (l redsyncLock) unlock(ctx context.Context) error {
	_, err := l.mutex.UnlockContext(ctx)
	return err
}

// withRedislock locks with redislock.
func withRedislock(client *redis.Client) library {
	locker := redislock.New(client)
	return func(ctx context.Context, key string, atMost, wait time.Duration) (held, error) {
		tries := redislock.LimitRetry(redislock.LinearBackoff(pause), int(wait/pause))
		l, err := locker.Obtain(ctx, key, atMost, &redislock.Options{RetryStrategy: tries, Metadata: " of a peer"})
		if errors.Is(err, redislock.ErrNotObtained) {
			return nil, ErrRefused
		} else if err != nil {
			return nil, err
		}
		return redislockLock{l}, nil
	}
}

type redislockLock struct{ lock *redislock.Lock }

func (l redislockLock) extend(ctx context.Context, atMost time.Duration) error {
	if err := l.lock.Refresh(ctx, atMost, nil); errors.Is(err, redislock.ErrNotObtained) {
		return ErrRefused
	} else if err != nil {
		return err
	}
	return nil
}

func (l redislockLock) unlock(ctx context.Context) error { return l.lock.Release(ctx) }

// serveGoPeer is what a peer in Go does: it answers the requests of its standard input until that ends.
func serveGoPeer(which, url, template string) error {
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	p := peerInGo{template: template, held: map[string]held{}}
	switch which {
	case "redsync":
		p.lock = withRedsync(client)
	case "redislock":
		p.lock = withRedislock(client)
	default:
		return fmt.Errorf("there is no library %q", which)
	}
	if err := client.Ping(context.Background()).Err(); err != nil {
		return err
	}
	p.reply("0", "ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		go func() {
			p.reply(append(words[:1:1], p.answer(context.Background(), words[0], words[1], words[2:])...)...)
		}()
	}
	return lines.Err()
}

type peerInGo struct {
	lock     library
	template string

	mu   sync.Mutex
	held map[string]held // by the id of the request
}

func (p *peerInGo) reply(words ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(os.Stdout, strings.Join(words, "\t")+"\n")
}

func (p *peerInGo) answer(ctx context.Context, id, verb string, words []string) []string {
	var err error
	switch verb {
	case "lock":
		if err = p.take(ctx, id, words[0], duration(words[1]), duration(words[3])); err == nil {
			return []string{"held", "0"}
		}
	case "extend":
		err = p.of(words[0]).extend(ctx, duration(words[1]))
	case "unlock":
		err = p.of(words[0]).unlock(ctx)
	case "count":
		err = p.count(ctx, words[0], number{words[1]}, words[2])
	default:
		err = fmt.Errorf("there is no request %s", verb)
	}
	switch {
	case errors.Is(err, ErrRefused):
		return []string{"refused"}
	case err != nil:
		return []string{"error", strings.Join(strings.Fields(err.Error()), " ")}
	}
	return []string{"ok"}
}

func (p *peerInGo) take(ctx context.Context, id, name string, atMost, wait time.Duration) error {
	l, err := p.lock(ctx, strings.Replace(p.template, "*", name, 1), atMost, wait)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[id] = l
	return nil
}

func (p *peerInGo) of(id string) held {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[id]
}

func (p *peerInGo) count(ctx context.Context, name string, n number, times string) error {
	left, err := strconv.Atoi(times)
	for ; left > 0 && err == nil; left-- {
		var l held
		if l, err = p.lock(ctx, strings.Replace(p.template, "*", name, 1), long, 5*time.Minute); err != nil {
			return err
		}
		err = errors.Join(n.increment(), l.unlock(ctx))
	}
	return err
}

// duration reads whole milliseconds.
func duration(word string) time.Duration {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err) // Peer writes them
	}
	return time.Duration(n) * time.Millisecond
}
