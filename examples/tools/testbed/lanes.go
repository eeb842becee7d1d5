package main

import (
	"context"
	"os"
	"sync"
	"time"
)

// lane is a testbed that runs one test program at a time.
type lane struct {
	*session
	suite *suite
}

// runLanes runs the jobs in lanes. Each lane has its own runtimes and runs one job after another.
func (s *suite) runLanes(ctx context.Context, jobs []job) {
	queue := make(chan job, len(jobs))
	for _, j := range jobs {
		queue <- j
	}
	close(queue)
	var all sync.WaitGroup
	for range s.opts.lanes {
		all.Go(func() {
			if err := s.runLane(ctx, queue); err != nil {
				s.firstError.set(err)
			}
		})
	}
	all.Wait()
}

func (s *suite) runLane(ctx context.Context, queue <-chan job) (err error) {
	c, err := openCache()
	if err != nil {
		return err
	}
	l := &lane{session: &session{cache: c, report: s.report}, suite: s}
	defer func() {
		if left := l.tearDown(context.WithoutCancel(ctx)); err == nil {
			err = left
		}
	}()
	if err := l.setUp(ctx, s.opts); err != nil {
		return err
	}
	for j := range queue {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := l.do(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// do runs a job. The control plane starts before the first job that needs it.
func (l *lane) do(ctx context.Context, j job) error {
	if j.controlPlane && l.controlPlane == nil {
		if err := l.addControlPlane(ctx, l.suite.opts); err != nil {
			return err
		}
	}
	cmd := l.suite.command(ctx, j)
	cmd.Env = l.environ(os.Environ())
	begin := time.Now()
	state, err := l.suite.runTests(cmd, j.test, l.commandStarted)
	if state != nil {
		l.suite.log.Ran(j.pkg, time.Since(begin), state.UserTime()+state.SystemTime())
	}
	return err
}
