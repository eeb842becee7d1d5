package agent

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/internal/run"
	"github.com/podwright/podwright/podworkers"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// newShutdown ends the pods before the machine goes down; nil if nobody wants that, or
// nobody would tell.
func (n *node) newShutdown() (*shutdown.Manager, error) {
	periods := shutdownPeriods(&n.cfg.Kubelet)
	if len(periods) == 0 || n.cfg.Login == nil {
		return nil, nil
	}
	file := filepath.Join(n.cfg.Flags.RootDir, shutdown.TimesFile)
	last, err := shutdown.ReadTimes(file)
	if err != nil {
		n.cfg.Logger.Warn("metrics of the last shutdown of the node are not shown", "err", err)
	}
	n.cfg.Metrics.Node.ShutDown(last.Start, last.End)
	return shutdown.New(shutdown.Config{
		Periods:         periods,
		Login:           n.cfg.Login,
		Pods:            n.handler.ActivePods,
		Kill:            n.endWithNode,
		Unmounted:       n.unmounted,
		Flush:           n.flushStatuses,
		OnChange:        n.goesDown,
		OnTimes:         func(t shutdown.Times) { n.cfg.Metrics.Node.ShutDown(t.Start, t.End) },
		TimesFile:       file,
		ShutdownTimeout: n.cfg.ShutdownTimeout,
		Logger:          n.cfg.Logger,
	})
}

const (
	// desiredTimeout is how long the sources of pods may keep a shutdown from being
	// noticed.
	desiredTimeout = 10 * time.Second
	// shutdownPoll is how often it is looked at what tells nobody when it changes.
	shutdownPoll = 100 * time.Millisecond
)

// followShutdown listens for the machine to go down. An agent that was started in the
// middle of it first takes over the pods that run, so that they end in their order and are
// not refused; if it is not told in time which there are, it does what it can.
func (n *node) followShutdown(ctx context.Context) error {
	if n.shutdown == nil {
		<-ctx.Done()
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, desiredTimeout)
	_ = poll(waiting, func() bool { return n.workers.State("").DesiredKnown }) // goes on without
	cancel()
	if err := n.shutdown.Run(ctx); err.Error() != run.EndOf(ctx).Error() {
		return err // something of it is still running
	}
	return nil
}

// poll waits until done, or for ctx.
func poll(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(shutdownPoll)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}

// admitNow refuses pods while the node goes down.
func (n *node) admitNow(pod *v1.Pod, active []*v1.Pod) error {
	if n.shutdown == nil {
		return nil
	}
	return n.shutdown.Admit(pod, active)
}

// endWithNode is shutdown.Config.Kill.
func (n *node) endWithNode(ctx context.Context, pod *v1.Pod, seconds int64) error {
	return n.workers.Kill(ctx, pod, podworkers.KillOptions{
		GracePeriodSeconds: &seconds,
		Status:             func(s *v1.PodStatus) { shutdown.Terminated(s, pod.Generation, time.Now()) },
	})
}

// unmounted is shutdown.Config.Unmounted.
func (n *node) unmounted(ctx context.Context, pods []*v1.Pod) error {
	waiting := map[types.UID]bool{}
	for _, pod := range pods {
		waiting[pod.UID] = true
	}
	return poll(ctx, func() bool {
		return !slices.ContainsFunc(n.volumes.manager.Pods(), func(uid types.UID) bool { return waiting[uid] })
	})
}

// flushStatuses is shutdown.Config.Flush: the API server has what became of the pods. The
// disk has it already.
func (n *node) flushStatuses(ctx context.Context) error {
	if n.cluster == nil {
		return nil
	}
	var errs []error
	for uid := range n.statuses.Pods() {
		if err := n.statuses.Flush(ctx, apiSource, uid); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// goesDown is shutdown.Config.OnChange: those who look at the Node see it at once.
func (n *node) goesDown(down bool) {
	message := "Shutdown manager detected shutdown event"
	if !down {
		message = "Shutdown manager detected shutdown cancellation"
	}
	n.event(nodeReference(n.cfg.Flags.NodeName), v1.EventTypeNormal, "Shutdown", message)
	if n.cluster != nil {
		n.cluster.node.Wake()
	}
}
