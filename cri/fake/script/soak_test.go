package script_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/fake/script"
)

// Pods come and go at the same time under random scripts with everything in them:
// nothing hangs, no reader of events is called twice at once, and what the callers
// do until it succeeds leaves nothing.
func TestSoak(t *testing.T) {
	pods := []string{"p0", "p1", "p2", "p3"}
	for seed := range uint64(10) {
		rules := script.Random(seed, script.RandomConfig{
			Rules: 25, Pods: pods, Containers: []string{"app"}, MaxDelay: 5 * time.Second, MaxCount: 10,
			Events: true, Runs: true, Restarts: true,
		})
		synctest.Test(t, func(t *testing.T) {
			t.Logf("replay with:\n%s", rules)
			rt, err := fake.New(fake.Config{AnyImage: true, Programs: rules.Programs(nil)})
			require.NoError(t, err)
			defer func() { require.NoError(t, rt.Close()) }()
			p, err := script.New(script.Config{Script: rules, Runtime: rt, Restart: func(ctx context.Context, _ bool) error {
				return rt.Restart(ctx, fake.RestartOptions{Down: time.Second})
			}})
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			var pending sync.WaitGroup
			pending.Go(func() { listen(ctx, p) })
			var living sync.WaitGroup
			for _, name := range pods {
				living.Go(func() {
					for n := range uint32(5) {
						lead(ctx, p, name, n)
					}
				})
			}
			living.Wait()
			cancel()
			pending.Wait()
			left, err := rt.ListPodSandbox(t.Context(), nil)
			require.NoError(t, err)
			require.Empty(t, left)
			fired := 0
			for _, f := range p.Fired() {
				fired += f.Fired
			}
			require.Positive(t, fired)
		})
	}
}

// listen subscribes again whenever a stream ends.
func listen(ctx context.Context, p *script.Player) {
	var one sync.Mutex
	for ctx.Err() == nil {
		_ = p.GetContainerEvents(ctx, func(*runtimeapi.ContainerEventResponse) {
			if !one.TryLock() {
				panic("two events at a time")
			}
			defer one.Unlock()
			time.Sleep(time.Millisecond)
		})
		time.Sleep(100 * time.Millisecond)
	}
}

// lead leads a pod's life, with each step repeated until it succeeds, or until it
// would be pointless.
func lead(ctx context.Context, p *script.Player, name string, attempt uint32) {
	config := podConfig("default", name)
	config.Metadata.Attempt = attempt
	config.Metadata.Uid = fmt.Sprintf("%s-%d", name, attempt)
	var sandbox, id string
	untilDone(ctx, func(ctx context.Context) (err error) {
		if sandbox, err = p.RunPodSandbox(ctx, config, ""); err == nil {
			return nil
		}
		list, listErr := p.ListPodSandbox(ctx, nil)
		for _, found := range list {
			if found.GetMetadata().GetUid() == config.Metadata.Uid && listErr == nil {
				sandbox, err = found.GetId(), nil
			}
		}
		return err
	})
	bounded(ctx, func(ctx context.Context) error {
		id, _ = p.CreateContainer(ctx, sandbox, containerConfig("app", attempt), config)
		return p.StartContainer(ctx, id)
	})
	bounded(ctx, func(ctx context.Context) error { return p.StopContainer(ctx, id, time.Second) })
	untilDone(ctx, func(ctx context.Context) error { return p.StopPodSandbox(ctx, sandbox) })
	untilDone(ctx, func(ctx context.Context) error { return p.RemovePodSandbox(ctx, sandbox) })
}

func bounded(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return call(ctx)
}

func untilDone(ctx context.Context, call func(context.Context) error) {
	for bounded(ctx, call) != nil {
		time.Sleep(100 * time.Millisecond)
	}
}
