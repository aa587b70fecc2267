// Package joblocks is what a service may have had on another backend: locks on elements of jobs, with a record of what is
// processed, and semaphores of jobs. Here each takes about thirty lines, and the backend is the store of the client.
package joblocks

import (
	"context"
	"sync"

	"github.com/soloist-dev/soloist"
)

// A JobLockManager locks elements of jobs, for a fleet. Its methods can be called from several goroutines.
type JobLockManager struct {
	Client *soloist.Client

	held sync.Map // *soloist.Element, by job and element
}

// Lock locks an element that is neither locked nor processed. The error is soloist.ErrHeld if another process has it, and soloist.ErrDone if it is
// processed. The context ends when the lock is lost, and with it the right to process the element.
func (m *JobLockManager) Lock(ctx context.Context, job, element string) (context.Context, error) {
	locked, err := m.Client.Elements(job, soloist.ElementsOptions{}).Claim(ctx, element)
	if err != nil {
		return nil, err
	}
	m.held.Store([2]string{job, element}, locked)
	return locked.Context(), nil
}

// Unlock frees an element for others. After SuccessfullyProcessed it does nothing, so it can be deferred.
func (m *JobLockManager) Unlock(job, element string) error {
	if locked, ok := m.held.LoadAndDelete([2]string{job, element}); ok {
		return locked.(*soloist.Element).Release()
	}
	return nil
}

// SuccessfullyProcessed records that a locked element is processed, and frees it. Nobody can lock it again. The error is soloist.ErrLost if this process does
// not have the lock any more; then the element is not recorded.
func (m *JobLockManager) SuccessfullyProcessed(job, element string) error {
	if locked, ok := m.held.LoadAndDelete([2]string{job, element}); ok {
		return locked.(*soloist.Element).Done()
	}
	return soloist.ErrLost
}

// A JobSemaphore lets at most Permits processes of a fleet work at a job. Its methods can be called from several goroutines.
type JobSemaphore struct {
	Client  *soloist.Client
	Permits int

	mu   sync.Mutex
	held map[string][]*soloist.Lease
}

// TryAcquire takes a permit of a job. The error is soloist.ErrHeld if all are taken. The context ends when the permit is lost.
func (s *JobSemaphore) TryAcquire(ctx context.Context, job string) (context.Context, error) {
	permit, err := s.Client.Semaphore(job, s.Permits).TryAcquire(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[string][]*soloist.Lease{}
	}
	s.held[job] = append(s.held[job], permit)
	return permit.Context(), nil
}

// Release gives the last permit of a job back that this JobSemaphore has taken. The error is soloist.ErrLost if it has none.
func (s *JobSemaphore) Release(job string) error {
	s.mu.Lock()
	permits := s.held[job]
	if len(permits) == 0 {
		s.mu.Unlock()
		return soloist.ErrLost
	}
	s.held[job] = permits[:len(permits)-1]
	s.mu.Unlock()
	return permits[len(permits)-1].Release()
}
