package script_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/fake/script"
)

// aDay is what happens on the recorded runtime.
const aDay = `
every call of container: take 10ms
every Version: take 10ms
every PullImage: take 10ms
every RunPodSandbox: take 1010ms
1st PullImage: take 4s, then Unavailable "registry is down"
2nd PullImage: take 6s
1st StopContainer of container slow: take 100ms, then do, then take 300ms
2nd CreateContainer: Unknown "lost"
every CreateContainer of container ghost: do, then hang
1st ExecSync: take 1s, then exit 3 "not yet"
2nd ExecSync: exit 0 "fine"
1st to 4th Version: Unavailable
4th event: late 70ms
5th event: twice
run of container crash: take 3s, then exit 2 Cheese "out of it"
run of container memory: take 1s, then exit 137 OOMKilled
run of container slow: until stopped, then take 2s, then exit 0
run of container stubborn: hang
run of container bad: Unknown "no such file"
`

// live leads the life that is recorded, and again on the replay. Its failures are
// part of it.
func live(ctx context.Context, t *testing.T, r *script.Recorder) {
	t.Helper()
	events, cancel := context.WithCancel(ctx)
	defer cancel()
	streamed := make(chan error)
	go func() {
		streamed <- r.GetContainerEvents(events, func(*runtimeapi.ContainerEventResponse) {})
	}()
	synctest.Wait()
	for range 6 {
		_, _ = r.Version(ctx)
	}
	for range 2 {
		_, _ = r.PullImage(ctx, &runtimeapi.ImageSpec{Image: "image-app"}, nil, nil)
	}
	pod := podConfig("prod", "a")
	sandbox, err := r.RunPodSandbox(ctx, pod, "")
	require.NoError(t, err)
	var ids []string
	for _, name := range []string{"app", "app", "crash", "memory", "ghost", "slow", "stubborn", "bad", "stubborn2"} {
		create, done := context.WithTimeout(ctx, time.Minute)
		config := containerConfig(strings.TrimSuffix(name, "2"), uint32(strings.Count(name, "2")))
		id, _ := r.CreateContainer(create, sandbox, config, pod)
		done()
		if id != "" {
			_ = r.StartContainer(ctx, id)
			ids = append(ids, id)
		}
	}
	for range 3 {
		_, _, _ = r.ExecSync(ctx, ids[0], []string{"probe"}, 0)
	}
	time.Sleep(10 * time.Second)
	_, err = r.ListContainers(ctx, nil)
	require.NoError(t, err)
	for i, id := range ids {
		if i < len(ids)-1 {
			_ = r.StopContainer(ctx, id, 5*time.Second)
		}
	}
	_ = r.StopContainer(ctx, "unknown", 0)
	_, err = r.ContainerStatus(ctx, "unknown", false)
	require.True(t, cri.IsNotFound(err))
	require.NoError(t, r.StopPodSandbox(ctx, sandbox))
	for _, id := range ids {
		_, err := r.ContainerStatus(ctx, id, false)
		require.NoError(t, err)
		require.NoError(t, r.RemoveContainer(ctx, id))
	}
	require.NoError(t, r.RemovePodSandbox(ctx, sandbox))
	time.Sleep(time.Second)
	cancel()
	require.ErrorIs(t, <-streamed, context.Canceled)
}

// What is recorded of a replay is what was recorded.
func TestRecordReplayRecord(t *testing.T) {
	var first, second string
	record := func(text string) (recorded string) {
		playOn(t, text, fakeWithImages(), script.Config{}, func(s *stage) {
			r, err := script.NewRecorder(s.Player, nil)
			require.NoError(t, err)
			start := time.Now()
			live(s.t.Context(), s.t, r)
			recorded = r.Script(0).String() + "# took " + time.Since(start).String()
		})
		return recorded
	}
	first = record(aDay)
	second = record(first)
	require.Equal(t, first, second)
	for _, line := range []string{
		`1st to 4th Version: take 10ms, then Unavailable`,
		`5th to 6th Version: take 10ms`,
		`1st PullImage of image image-app: take 4.01s, then Unavailable "registry is down"`,
		`2nd PullImage of image image-app: take 6.01s`,
		`1st RunPodSandbox of sandbox attempt 0 of pod prod/a: take 1.01s`,
		`2nd CreateContainer of container app attempt 0 of pod prod/a: take 10ms, then Unknown "lost"`,
		`1st ExecSync of container app attempt 0 of pod prod/a: take 1.01s, then exit 3 "not yet"`,
		`1st StopContainer of container slow attempt 0 of pod prod/a: do, then take 300ms`,
		`1st CreateContainer of container ghost attempt 0 of pod prod/a: do, then hang`,
		`1st run of container crash attempt 0 of pod prod/a: take 3s, then exit 2 Cheese "out of it"`,
		`1st run of container memory attempt 0 of pod prod/a: take 1s, then exit 137 OOMKilled`,
		`1st run of container stubborn attempt 0 of pod prod/a: hang`,
		`1st run of container stubborn attempt 1 of pod prod/a: hang`,
	} {
		require.Contains(t, first, line+"\n")
	}
	require.Contains(t, first, "until stopped, then take 2.11s, then exit 0")
	require.Contains(t, first, `no such file"`)
	require.Contains(t, first, "of pod prod/a: twice\n")
}

// A caller that removes a container in the moment in which it sees it exit has not
// stopped it. In virtual time the two have the same time.
func TestRecorderTellsRemovedFromStopped(t *testing.T) {
	text := "1st to 3rd run of container app attempt 0 of pod prod/a: take 3s, then exit 1\n"
	play(t, text, func(s *stage) {
		r, err := script.NewRecorder(s.Player, s.Player)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(s.t.Context())
		defer cancel()
		stopped := make(chan string, 10)
		ended := make(chan error)
		go func() {
			ended <- r.GetContainerEvents(ctx, func(e *runtimeapi.ContainerEventResponse) {
				if e.GetContainerEventType() == runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT {
					stopped <- e.GetContainerId()
				}
			})
		}()
		synctest.Wait()
		sandbox := s.pod("a")
		for range 3 {
			id := s.container(sandbox, "app", 0)
			require.NoError(t, r.StartContainer(ctx, id))
			require.Equal(t, id, <-stopped)
			require.NoError(t, r.StopContainer(ctx, id, 0))
			require.NoError(t, r.RemoveContainer(ctx, id))
		}
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Equal(t, text, r.Script(0).String())
	})
}

// Rounding leaves out what comes to nothing, and joins what then is the same.
func TestRecorderRounds(t *testing.T) {
	play(t, "every Version: take 1ms\n2nd Version: take 130ms\n5th Version: take 121ms\n6th Version: take 118ms", func(s *stage) {
		r, err := script.NewRecorder(s.Player, nil)
		require.NoError(t, err)
		for range 6 {
			_, err := r.Version(s.t.Context())
			require.NoError(t, err)
		}
		require.Equal(t, "2nd Version: take 130ms\n5th to 6th Version: take 120ms\n", r.Script(10*time.Millisecond).String())
		require.Len(t, r.Script(0).Rules, 5)
	})
}

// What ends without the runtime's doing: streams that break, and calls that their
// caller, or the client, gives up.
func TestRecorderEnds(t *testing.T) {
	text := `1st GetContainerEvents: do, then hang 3s, then Unavailable "gone"
		2nd GetContainerEvents: do, then take 2s, then empty reply
		run of container slow: until stopped, then take 3s, then exit 4
		every run: hang`
	want := []string{
		`1st GetContainerEvents: do, then take 3s, then Unavailable "gone"`,
		`2nd GetContainerEvents: do, then take 2s, then empty reply`,
		`1st StopContainer of container slow attempt 0 of pod prod/a: do, then hang`,
		`1st run of container slow attempt 0 of pod prod/a: until stopped, then take 3s, then exit 4`,
		`1st run of container removed attempt 0 of pod prod/a: hang`,
		`1st Version: Unavailable "away"`,
	}
	play(t, text, func(s *stage) {
		r, err := script.NewRecorder(failing{s.Player}, s.Player)
		require.NoError(t, err)
		ctx, ignore := s.t.Context(), func(*runtimeapi.ContainerEventResponse) {}
		require.Error(t, r.GetContainerEvents(ctx, ignore))
		require.NoError(t, r.GetContainerEvents(ctx, ignore))
		sandbox := s.pod("a")
		slow, removed := s.container(sandbox, "slow", 0), s.container(sandbox, "removed", 0)
		require.NoError(t, r.StartContainer(ctx, slow))
		require.NoError(t, r.StartContainer(ctx, removed))
		brief, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, r.StopContainer(brief, slow, 10*time.Second), context.DeadlineExceeded)
		time.Sleep(5 * time.Second)
		_, err = r.ContainerStatus(ctx, slow, false)
		require.NoError(t, err)
		listening, hangUp := context.WithCancel(ctx)
		ended := make(chan error)
		go func() { ended <- r.GetContainerEvents(listening, ignore) }()
		synctest.Wait()
		require.NoError(t, r.RemoveContainer(ctx, removed))
		synctest.Wait()
		hangUp()
		require.ErrorIs(t, <-ended, context.Canceled)
		_, err = r.Version(ctx)
		require.Error(t, err)
		recorded := r.Script(0).String()
		for _, line := range want {
			require.Contains(t, recorded, line+"\n")
		}
		require.Len(t, strings.Split(recorded, "\n"), len(want)+1, recorded)
	})
}

// failing has a Version that fails as that of a client does.
type failing struct{ cri.RuntimeService }

func (failing) Version(context.Context) (*runtimeapi.VersionResponse, error) {
	return nil, &cri.CallError{Call: "Version", Err: status.Error(codes.Unavailable, "away")}
}

func TestNewRecorder(t *testing.T) {
	rt, err := fake.New(fake.Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, rt.Close()) }()
	_, err = script.NewRecorder(nil, rt)
	require.EqualError(t, err, "script: a Recorder needs a runtime")
	_, err = script.NewRecorder(struct{ cri.RuntimeService }{rt}, nil)
	require.EqualError(t, err, "script: a Recorder needs images, since the runtime has none")
	_, err = script.NewRecorder(struct{ cri.RuntimeService }{rt}, rt)
	require.NoError(t, err)
}
