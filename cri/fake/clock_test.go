package fake_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

// Every timestamp follows the runtime's clock, ahead or behind; durations do not change.
func TestClockSkew(t *testing.T) {
	for _, skew := range []time.Duration{48 * time.Hour, -48 * time.Hour} {
		bubble(t, skew.String(), func(t *testing.T) {
			memory := &memoryLogs{}
			rt := start(t, fake.Config{
				AnyImage: true, ClockSkew: skew, OpenLog: memory.open,
				Programs: fake.ByContainer(map[string]fake.Program{"echo": func(_ context.Context, p *fake.Process) int {
					_, _ = p.Stdout.Write([]byte("hello\n"))
					return 0
				}}, stubborn),
			})
			events := make(chan *runtimeapi.ContainerEventResponse, 100)
			go func() {
				_ = rt.GetContainerEvents(t.Context(), func(e *runtimeapi.ContainerEventResponse) { events <- e })
			}()
			synctest.Wait()
			want := time.Now().Add(skew).UnixNano()
			sandboxID, err := rt.RunPodSandbox(t.Context(), logs(podConfig("p")), "")
			require.NoError(t, err)
			echo, stubborn := add(t, rt, sandboxID, "echo", true), add(t, rt, sandboxID, "stubborn", true)
			synctest.Wait()
			require.NotEmpty(t, events)
			for len(events) > 0 {
				require.Equal(t, want, (<-events).CreatedAt)
			}
			s := statusOf(t, rt, echo)
			require.Equal(t, []int64{want, want, want}, []int64{s.CreatedAt, s.StartedAt, s.FinishedAt})
			pod, err := rt.PodSandboxStatus(t.Context(), sandboxID, false)
			require.NoError(t, err)
			require.Equal(t, []int64{want, want}, []int64{pod.Status.CreatedAt, pod.Timestamp})
			stats, err := rt.ContainerStats(t.Context(), stubborn)
			require.NoError(t, err)
			require.Equal(t, want, stats.Cpu.Timestamp)
			images, err := rt.ImageFsInfo(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, images.ImageFilesystems[0].Timestamp)
			require.True(t, strings.HasPrefix(memory.text("/logs/p/echo.log"), time.Unix(0, want).UTC().Format(time.RFC3339Nano)))

			began := time.Now()
			require.NoError(t, rt.StopContainer(t.Context(), stubborn, 10*time.Second))
			require.Equal(t, 10*time.Second, time.Since(began))
		})
	}
}

// After the clock is set back, a container may end before its start. Existing timestamps stay.
func TestClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true})
		_, id := running(t, rt)
		began := statusOf(t, rt, id).StartedAt
		rt.SetClockSkew(-time.Hour)
		stats, err := rt.ContainerStats(t.Context(), id)
		require.NoError(t, err)
		require.Zero(t, stats.Cpu.UsageCoreNanoSeconds.Value, "never negative")
		require.NoError(t, rt.StopContainer(t.Context(), id, 0))
		s := statusOf(t, rt, id)
		require.Equal(t, began, s.StartedAt)
		require.Equal(t, -time.Hour, time.Duration(s.FinishedAt-s.StartedAt))
		rt.SetClockSkew(0)
		sandboxID := sandbox(t, rt, "q")
		pod, err := rt.PodSandboxStatus(t.Context(), sandboxID, false)
		require.NoError(t, err)
		require.Equal(t, began, pod.Status.CreatedAt)
	})
}
