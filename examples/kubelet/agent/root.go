package agent

import (
	"context"
	"time"

	"github.com/podwright/podwright/internal/run"
)

// rootPeriod is how often it is looked at whether the root folder is as it should be: as
// often as the loop does its housekeeping.
const rootPeriod = 2 * time.Second

// prepareRoot makes the root folder, and those in it. It is shared first: what is in it then is
// seen through the mount that it has become.
func (a *Agent) prepareRoot(ctx context.Context) error {
	if a.cfg.ShareRoot != nil {
		if err := a.cfg.ShareRoot(ctx); err != nil {
			return err
		}
	}
	return a.folders.prepare()
}

// watchRoot sees to it that what happens to the root folder is in the log, once, and in
// the health, until ctx ends.
func (a *Agent) watchRoot(ctx context.Context, l *lock) {
	last := ""
	for run.Sleep(ctx, rootPeriod) {
		err, text := l.check(), ""
		if err != nil {
			text = err.Error()
		}
		if text == last {
			continue
		}
		if last = text; err != nil {
			a.log.Error("root folder", "err", err)
		}
		a.setRoot(err)
	}
}

func (a *Agent) setRoot(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.root = err
}

// rootHealth is what is wrong with the root folder.
func (a *Agent) rootHealth() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.root
}
