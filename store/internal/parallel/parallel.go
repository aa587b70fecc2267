// Package parallel calls a function for the elements of a batch, several at a time. It is for stores whose backend takes one element a request.
package parallel

import "sync"

// Do calls f for 0 to n-1, up to most at a time, and returns when all calls have returned.
func Do(n, most int, f func(int)) {
	if n == 1 {
		f(0)
		return
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, most)
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wait.Wait()
}
