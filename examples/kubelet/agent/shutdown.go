package agent

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/status/writer"
	"github.com/podwright/podwright/syncloop/shutdown"
)

// nodeShutdown ends the pods before the machine shuts down. Its methods accept nil: the machine
// then decides how pods end.
type nodeShutdown struct {
	*shutdown.Manager
	lifecycle *lifecycle
}

// newShutdown returns nil if the configuration has no grace periods, or if the machine does not
// announce shutdowns.
func newShutdown(in *inputs, l *lifecycle, v volumes) (*nodeShutdown, error) {
	cfg := in.cfg
	periods := shutdownPeriods(&cfg.Kubelet)
	if len(periods) == 0 || cfg.Login == nil {
		return nil, nil
	}
	file := filepath.Join(cfg.Flags.RootDir, shutdown.TimesFile)
	last, err := shutdown.ReadTimes(file)
	if err != nil {
		cfg.Logger.Warn("cannot read the times of the last node shutdown; their metrics are missing", "err", err)
	}
	cfg.Metrics.Node.ShutDown(last.Start, last.End)
	manager, err := shutdown.New(shutdown.Config{
		Periods:         periods,
		Login:           cfg.Login,
		Pods:            l.active,
		Kill:            l.shutDown,
		Unmounted:       v.unmounted,
		Flush:           func(ctx context.Context) error { return in.cluster.flush(ctx, l.syncer.Statuses()) },
		OnChange:        func(down bool) { announceShutdown(in.recorder, in.cluster, down) },
		OnTimes:         func(t shutdown.Times) { cfg.Metrics.Node.ShutDown(t.Start, t.End) },
		TimesFile:       file,
		ShutdownTimeout: cfg.ShutdownTimeout,
		Logger:          cfg.Logger,
	})
	return &nodeShutdown{manager, l}, err
}

const (
	// desiredTimeout bounds the delay of shutdown handling by unread sources.
	desiredTimeout = 10 * time.Second
	// shutdownPoll is the period of polls of state without change notification.
	shutdownPoll = 100 * time.Millisecond
)

// run ends pods when the machine shuts down, until ctx is done. It starts when the desired pods are
// known, so that an agent that starts during a shutdown first takes over the running pods. They
// then end in order instead of being rejected. After desiredTimeout it starts without them.
func (s *nodeShutdown) run(ctx context.Context) error {
	if s == nil {
		<-ctx.Done()
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, desiredTimeout)
	_ = poll(waiting, func() bool { return s.lifecycle.syncer.Workers().State("").DesiredKnown })
	cancel()
	return s.Run(ctx)
}

func (s *nodeShutdown) admit(pod *v1.Pod, active []*v1.Pod) error {
	if s == nil {
		return nil
	}
	return s.Admit(pod, active)
}

func (s *nodeShutdown) goingDown() bool { return s != nil && s.GoingDown() }

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

// unmounted implements shutdown.Config.Unmounted.
func (v volumes) unmounted(ctx context.Context, pods []*v1.Pod) error {
	waiting := map[types.UID]bool{}
	for _, pod := range pods {
		waiting[pod.UID] = true
	}
	return poll(ctx, func() bool {
		return !slices.ContainsFunc(v.manager.Pods(), func(uid types.UID) bool { return waiting[uid] })
	})
}

// flush implements shutdown.Config.Flush. It writes the last statuses to the API server. The disk
// already has them.
func (c *cluster) flush(ctx context.Context, statuses *writer.Writer) error {
	if c == nil {
		return nil
	}
	var errs []error
	for uid := range statuses.Pods() {
		if err := statuses.Flush(ctx, apiSource, uid); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func announceShutdown(recorder recorder, c *cluster, down bool) {
	message := "Shutdown manager detected shutdown event"
	if !down {
		message = "Shutdown manager detected shutdown cancellation"
	}
	recorder.ofNode(v1.EventTypeNormal, "Shutdown", message)
	c.writeNode()
}
