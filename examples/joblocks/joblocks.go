// Package joblocks is what a service may have had on another backend: locks on elements of jobs, with a record of what is
// processed, and semaphores of jobs. Here each takes thirty or forty lines, and the backend is the store of the client.
package joblocks

import (
	"context"
	"errors"
	"sync"

	"github.com/soloist-dev/soloist"
)

// A JobLockManager locks elements of jobs, for a fleet. Its methods can be called from several goroutines.
type JobLockManager struct {
	Client *soloist.Client

	held sync.Map // *soloist.Element, by job and element
}

// Lock locks an element that is neither locked nor processed. The error is soloist.ErrHeld if another has it, and soloist.ErrDone if it is
// processed. The context ends when the lock is lost, and with it the right to process the element. Unlock must follow, also then: until it does, nobody
// else in this process can lock the element, because it would end their lock.
func (m *JobLockManager) Lock(ctx context.Context, job, element string) (context.Context, error) {
	locked, err := m.Client.Elements(job, soloist.ElementsOptions{}).Claim(ctx, element)
	if err != nil {
		return nil, err
	}
	if _, before := m.held.LoadOrStore([2]string{job, element}, locked); before {
		return nil, errors.Join(soloist.ErrHeld, locked.Release())
	}
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
// not have the lock any more; then the element is not recorded. After an error only Unlock is left to do.
func (m *JobLockManager) SuccessfullyProcessed(job, element string) error {
	locked, ok := m.held.Load([2]string{job, element})
	if !ok || locked.(*soloist.Element).Err() != nil {
		return soloist.ErrLost
	}
	err := locked.(*soloist.Element).Done()
	if err == nil {
		m.held.Delete([2]string{job, element})
	}
	return err
}

// A JobSemaphore lets at most Permits processes of a fleet work at a job. Its methods can be called from several goroutines.
type JobSemaphore struct {
	Client  *soloist.Client
	Permits int

	held sync.Map // *soloist.Lease, by its context
}

// TryAcquire takes a permit of a job. The error is soloist.ErrHeld if all are taken. The context ends when the permit is lost.
func (s *JobSemaphore) TryAcquire(ctx context.Context, job string) (context.Context, error) {
	permit, err := s.Client.Semaphore(job, s.Permits).TryAcquire(ctx)
	if err != nil {
		return nil, err
	}
	s.held.Store(permit.Context(), permit)
	return permit.Context(), nil
}

// Release gives back the permit whose context TryAcquire returned. The error is soloist.ErrLost if it was lost, or is given back already.
func (s *JobSemaphore) Release(permit context.Context) error {
	if held, ok := s.held.LoadAndDelete(permit); ok {
		return held.(*soloist.Lease).Release()
	}
	return soloist.ErrLost
}
