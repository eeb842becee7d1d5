package logs

import (
	"context"
	"errors"
	"io/fs"
	"time"
)

// firstRetry is the first pause before an expected change is checked again. The pause doubles each
// time.
const firstRetry = 10 * time.Millisecond

// following is a reading with Follow.
type following struct {
	*reading
	self *follower

	stopped    bool
	stoppedAt  time.Time     // detection time of stopped
	warned     bool          // about an unavailable state
	recheck    time.Duration // pause before the next state request; 0: none
	leaving    time.Time     // last growth of the file since there is a reason to leave it; zero: no reason
	leavingEnd int64         // the file's size then
	retry      time.Duration // pause before the next check of a file to leave
	size       int64         // last size of the file
	pathFile   fileID        // last identity of the file at path
	pathSize   int64
}

// follow reads until the container has stopped or the limit is reached. It returns ctx's error
// when ctx ends.
func (rd *reading) follow(ctx context.Context) (err error) {
	self, leave := rd.reader.join(ctx, rd.path, rd.container)
	defer func() { err = errors.Join(err, leave()) }()
	// The container may have stopped long ago, so request its state once at the beginning.
	f := &following{reading: rd, self: self, recheck: rd.reader.period}
	for {
		done, err := f.once(ctx)
		if done || err != nil {
			return err
		}
	}
}

// once reads to the end of the file and executes one step.
func (f *following) once(ctx context.Context) (done bool, err error) {
	if err := f.pump(ctx, false); err != nil || f.splitter.to.full() {
		return true, err
	}
	next, facts, err := f.find(ctx)
	if err != nil {
		return false, err
	}
	step := decide(facts, f.reader.period)
	if step != stepNext && next != nil {
		if err := next.close(); err != nil {
			return false, err
		}
	}
	switch step {
	case stepStartOver:
		f.segment.startOver()
		f.splitter.reset()
	case stepNext:
		return false, f.finish(ctx, next)
	case stepEnd:
		return true, f.pump(ctx, true)
	case stepWait:
		return false, f.wait(ctx)
	}
	return false, nil
}

func (f *following) finish(ctx context.Context, next *segment) error {
	if err := f.pump(ctx, true); err != nil {
		return errors.Join(err, next.close())
	}
	f.leaving, f.retry = time.Time{}, 0
	return f.next(next)
}

// find returns the facts at the end of the file, and the next file if the log was moved.
func (f *following) find(ctx context.Context) (*segment, facts, error) {
	out := facts{stopped: f.checkState(ctx)}
	_, size, err := identify(f.segment.file)
	if err != nil {
		return nil, out, err
	}
	f.size = size
	out.shrunk, out.grown = size < f.segment.end, size > f.segment.end
	if out.shrunk || out.grown {
		return nil, out, nil
	}
	f.pathFile, f.pathSize, err = statFile(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, out, err
	}
	var next *segment
	gap := false
	if err != nil || f.pathFile != f.segment.id {
		if next, gap, err = successor(f.segment, f.path); err != nil {
			return nil, out, err
		}
	}
	out.moved = next != nil
	f.seeLeaving(gap, &out)
	return next, out, nil
}

// seeLeaving adds the facts about a file that was moved or whose container has stopped.
func (f *following) seeLeaving(gap bool, out *facts) {
	if !out.leaving() {
		f.leaving = time.Time{}
		return
	}
	if f.leaving.IsZero() {
		f.retry = firstRetry
		if gap {
			f.reader.cfg.Logger.Warn("a followed log was removed by rotation; lines may be missing", "path", f.path)
		}
	}
	if f.leaving.IsZero() || f.leavingEnd != f.size {
		f.leaving, f.leavingEnd = time.Now(), f.size
	}
	out.quiet = time.Since(f.leaving)
	if out.stopped {
		out.over = time.Since(f.stoppedAt)
	}
	out.writer = f.reader.writerOf(f.segment.file)
}

// checkState requests the container's state if it may have changed, and reports whether the
// container has stopped.
func (f *following) checkState(ctx context.Context) bool {
	if f.self.checkStopped.Swap(false) {
		f.recheck = firstRetry
	} else if f.recheck == 0 {
		return f.stopped
	}
	states := f.reader.cfg.States
	if f.stopped || states == nil || f.container == "" {
		f.recheck = 0
		return f.stopped
	}
	running, err := states.Running(ctx, []string{f.container})
	if err != nil && ctx.Err() == nil && !f.warned {
		f.warned = true
		f.reader.cfg.Logger.Warn("container state is unknown; following its log continues", "container", f.container, "err", err)
	}
	if f.stopped = err == nil && len(running) == 1 && !running[0]; f.stopped {
		f.stoppedAt = time.Now()
	}
	return f.stopped
}

func (f *following) wait(ctx context.Context) error {
	timer := f.pause()
	if f.leaving.IsZero() {
		f.self.setIdle(f.pathFile, f.pathSize)
		defer f.self.setBusy()
	}
	var expired <-chan time.Time
	if timer != nil {
		expired = timer.C
		defer timer.Stop()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.self.wake:
	case <-expired:
	}
	return nil
}

// pause returns a timer for changes without a notification: the container's state after its log
// was closed, and the end of a file's last writer. It returns nil if neither is expected.
func (f *following) pause() *time.Timer {
	period := f.reader.period
	pause := f.recheck
	if f.recheck *= 2; f.recheck > period {
		f.recheck = 0 // the poller requests it once a period
	}
	if !f.leaving.IsZero() {
		if pause == 0 || f.retry < pause {
			pause = f.retry
		}
		f.retry = min(2*f.retry, period)
	}
	if pause == 0 {
		return nil
	}
	return time.NewTimer(pause)
}
