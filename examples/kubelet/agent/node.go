package agent

import (
	"context"
	"errors"

	"github.com/podwright/podwright/internal/run"
)

// run runs all parts until ctx is done, and leaves the pods running. Volumes start before the
// syncer and end after it, because the syncer waits for them.
func (n *node) run(ctx context.Context) error {
	in := n.in
	checkResolver(in.cfg, in.recorder)
	keepCgroups := func(ctx context.Context) error {
		return n.cgroups.keep(ctx, in.sources.merger.Ready, n.lifecycle.active, in.cfg.Logger)
	}
	return runAround(ctx, func(ctx context.Context) error {
		return run.All(ctx, n.volumes.run, n.followObjects)
	}, func(ctx context.Context) error {
		return n.syncer.RunWith(ctx, n.health.Run, n.rotator.Run, n.imageGC.Run, keepCgroups, n.prepare, n.summary.Run, n.shutdown.run, in.endReports)
	})
}

// runAround runs outer while inner runs. It cancels outer after inner has returned, and inner when
// outer returns or ctx is done.
func runAround(ctx context.Context, outer, inner func(context.Context) error) error {
	acting, stop := context.WithCancel(ctx)
	defer stop()
	around, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	ended := make(chan error, 1)
	go func() {
		defer stop()
		ended <- outer(around)
	}()
	err := inner(acting)
	end()
	return errors.Join(err, <-ended)
}

// runWith runs f beside the connection to the API server. The connection ends after f, so that the
// last statuses and events of f are written. The reports about the Node end when f begins to stop:
// they would describe the parts of f that have stopped already.
func (in *inputs) runWith(ctx context.Context, f func(context.Context) error) error {
	if in.cluster == nil {
		return f(ctx)
	}
	return runAround(ctx, in.cluster.run, func(ctx context.Context) error {
		reporting, stop := context.WithCancel(ctx)
		in.stopReports = stop
		return run.All(ctx,
			func(ctx context.Context) error { defer stop(); return f(ctx) },
			func(context.Context) error { return in.cluster.node.Run(reporting) })
	})
}

// endReports ends the reports about the Node when ctx is done.
func (in *inputs) endReports(ctx context.Context) error {
	<-ctx.Done()
	if in.stopReports != nil {
		in.stopReports()
	}
	return nil
}
