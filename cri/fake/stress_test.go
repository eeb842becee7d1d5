package fake_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

// TestEverythingAtOnce lets many callers work on the same few pods, with every
// kind of program, and then looks whether what is left makes sense.
func TestEverythingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		programs := []fake.Program{
			fake.SleepUntilStopped, fake.Exit(1), stubborn, after(time.Second, 0),
			func(context.Context, *fake.Process) int { panic("no") },
			func(context.Context, *fake.Process) int { time.Sleep(20 * time.Second); return 0 },
		}
		rt := start(t, fake.Config{
			AnyImage: true, KillTimeout: 3 * time.Second,
			Programs: func(_ context.Context, p *fake.Process) (fake.Program, error) {
				if p.Container.Attempt%7 == 6 {
					return nil, fake.ErrNotFound
				}
				return programs[int(p.Container.Attempt)%len(programs)], nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		var events sync.WaitGroup
		seen := map[string][]runtimeapi.ContainerEventType{}
		events.Go(func() {
			_ = rt.GetContainerEvents(ctx, func(e *runtimeapi.ContainerEventResponse) {
				seen[e.ContainerId] = append(seen[e.ContainerId], e.ContainerEventType)
			})
		})
		synctest.Wait()

		var callers sync.WaitGroup
		for n := range 20 {
			callers.Go(func() { abuse(t, rt, rand.New(rand.NewPCG(uint64(n), 7))) })
		}
		callers.Wait()
		sandboxes, err := rt.ListPodSandbox(t.Context(), nil)
		require.NoError(t, err)
		for _, b := range sandboxes {
			require.NoError(t, rt.RemovePodSandbox(t.Context(), b.Id))
		}
		left, err := rt.ListContainers(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, left)
		synctest.Wait()
		cancel()
		events.Wait()
		require.NotEmpty(t, seen)
		for id, kinds := range seen {
			// Created, then perhaps started and stopped, then deleted.
			require.IsIncreasing(t, append([]runtimeapi.ContainerEventType{-1}, kinds...), id)
			require.Equal(t, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, kinds[len(kinds)-1])
		}
		time.Sleep(time.Minute) // the abandoned come back
	})
}

// abuse makes calls that are each right or wrong at the moment they are made.
func abuse(t *testing.T, rt *fake.Runtime, random *rand.Rand) {
	ctx := t.Context()
	for range 200 {
		name := fmt.Sprint("p", random.IntN(3))
		pod := podConfig(name)
		pod.Metadata.Attempt = uint32(random.IntN(2))
		var err error
		sandboxes, _ := rt.ListPodSandbox(ctx, &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": "uid-" + name}})
		containers, _ := rt.ListContainers(ctx, nil)
		sandboxID, id := "none", "none"
		if len(sandboxes) > 0 {
			sandboxID = sandboxes[random.IntN(len(sandboxes))].Id
		}
		if len(containers) > 0 {
			id = containers[random.IntN(len(containers))].Id
		}
		switch random.IntN(12) {
		case 0, 1:
			_, err = rt.RunPodSandbox(ctx, pod, "")
		case 2, 3, 4:
			config := containerConfig(name, "c")
			config.Metadata.Attempt = uint32(random.IntN(30))
			_, err = rt.CreateContainer(ctx, sandboxID, config, pod)
		case 5, 6, 7:
			err = rt.StartContainer(ctx, id)
		case 8:
			err = rt.StopContainer(ctx, id, time.Duration(random.IntN(3))*time.Second)
		case 9:
			err = rt.RemoveContainer(ctx, id)
		case 10:
			err = rt.StopPodSandbox(ctx, sandboxID)
		case 11:
			_, _, err = rt.ExecSync(ctx, id, []string{"x"}, time.Second)
		}
		switch status.Code(err) {
		case codes.OK, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition:
		default:
			var ended *cri.ExitError // an exec whose container has ended
			if !errors.Is(err, fake.ErrNotFound) && !errors.As(err, &ended) {
				t.Errorf("unexpected: %v", err)
			}
		}
	}
}
