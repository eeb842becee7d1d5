package script_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	created = runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT
	began   = runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT
	stopped = runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT
	deleted = runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT
)

// A container is created, started, stopped and removed, a second apart.
func TestEvents(t *testing.T) {
	type seen struct {
		at   time.Duration
		what runtimeapi.ContainerEventType
	}
	const s = time.Second
	all := []seen{{1 * s, created}, {2 * s, began}, {3 * s, stopped}, {4 * s, deleted}}
	for text, want := range map[string][]seen{
		"":                             all,
		"1st event started: drop":      {all[0], all[2], all[3]},
		"every event of pod b: drop":   all,
		"every event of sandbox: drop": all,
		"every event of container app attempt 0 of pod prod/a: drop": {},
		"every event deleted of uid uid-a of image image-app: drop":  all[:3],
		"every event stopped: twice":                                 {all[0], all[1], all[2], all[2], all[3]},
		"1st event created: swap":                                    {all[1], {2 * s, created}, all[2], all[3]},
		"1st to 2nd event: swap":                                     {all[2], {3 * s, created}, {3 * s, began}, all[3]},
		"4th event: swap":                                            all[:3],
		"2nd event: late 1500ms":                                     {all[0], all[2], {3500 * time.Millisecond, began}, all[3]},
		"1st event: take 2500ms":                                     {{3500 * time.Millisecond, created}, {3500 * time.Millisecond, began}, {3500 * time.Millisecond, stopped}, all[3]},
		"1st event: take 1s\n1st event: take 1s, then twice":         {{3 * s, created}, {3 * s, created}, {3 * s, began}, all[2], all[3]},
		"4th event: late 1m":                                         all[:3],
		"2nd event: do":                                              all,
	} {
		play(t, text, func(s *stage) {
			sandbox := s.pod("a")
			ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
			defer cancel()
			wait := s.collect(ctx)
			s.life(sandbox)
			events, err := wait()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			got := []seen{}
			for _, e := range events {
				got = append(got, seen{e.at, e.what})
			}
			require.Equal(t, want, got, text)
		})
	}
}

// life is that of a container: four events, a second apart.
func (s *stage) life(sandbox string) {
	s.t.Helper()
	time.Sleep(time.Second)
	id := s.container(sandbox, "app", 0)
	time.Sleep(time.Second)
	require.NoError(s.t, s.fake.StartContainer(s.t.Context(), id))
	time.Sleep(time.Second)
	require.NoError(s.t, s.fake.StopContainer(s.t.Context(), id, 1))
	time.Sleep(time.Second)
	require.NoError(s.t, s.fake.RemoveContainer(s.t.Context(), id))
}

func TestStreamBreaks(t *testing.T) {
	for text, want := range map[string]struct {
		events int
		at     time.Duration
	}{
		"3rd event: Unavailable \"gone\"":                                         {2, 3 * time.Second},
		"3rd event: do, then Unavailable \"gone\"":                                {3, 3 * time.Second},
		"1st GetContainerEvents: take 1s, then Unavailable \"gone\"":              {0, time.Second},
		"1st GetContainerEvents: do, then hang 2500ms, then Unavailable \"gone\"": {2, 2500 * time.Millisecond},
	} {
		play(t, text, func(s *stage) {
			sandbox, start := s.pod("a"), time.Now()
			wait := s.collect(s.t.Context())
			lived := make(chan struct{})
			go func() {
				defer close(lived)
				s.life(sandbox)
			}()
			events, err := wait()
			require.Equal(t, codes.Unavailable, status.Code(err), text)
			require.Equal(t, "gone", status.Convert(err).Message(), text)
			require.Len(t, events, want.events, text)
			require.Equal(t, want.at, time.Since(start), text)
			<-lived
		})
	}
}

// How a container ends when it is left alone, and when it is stopped after 5 s
// with a grace of 10 s.
func TestPrograms(t *testing.T) {
	type end struct {
		at     time.Duration
		code   int32
		reason string
	}
	const s = time.Second
	for text, want := range map[string]struct{ alone, stopped end }{
		"take 3s, then exit 1 Error":       {end{3 * s, 1, "Error"}, end{3 * s, 1, "Error"}},
		"take 8s, then exit 0":             {end{8 * s, 0, "Completed"}, end{5 * s, 143, "Error"}},
		"take 8s":                          {end{8 * s, 0, "Completed"}, end{5 * s, 143, "Error"}},
		"exit 137 OOMKilled \"no memory\"": {end{0, 137, "OOMKilled"}, end{0, 137, "OOMKilled"}},
		"hang":                             {end{}, end{15 * s, 137, "Error"}},
		"hang 8s, then exit 4":             {end{8 * s, 4, "Error"}, end{8 * s, 4, "Error"}},
		"until stopped":                    {end{}, end{5 * s, 0, "Completed"}},
		"until stopped, then take 2s, then exit 7": {end{}, end{7 * s, 7, "Error"}},
		"until stopped, then take 1m":              {end{}, end{15 * s, 137, "Error"}},
		"take 2s, then until stopped, then exit 9": {end{}, end{5 * s, 9, "Error"}},
	} {
		for _, stop := range []bool{false, true} {
			play(t, "every run: "+text, func(stage *stage) {
				id, start := stage.started(stage.pod("a"), "app"), time.Now()
				expected := want.alone
				if stop {
					expected = want.stopped
					time.Sleep(5 * time.Second)
					require.NoError(t, stage.fake.StopContainer(stage.t.Context(), id, 10*time.Second))
				} else {
					time.Sleep(time.Minute)
				}
				status := stage.status(id)
				if expected == (end{}) {
					require.Equal(t, runtimeapi.ContainerState_CONTAINER_RUNNING, status.GetState())
					return
				}
				got := end{time.Unix(0, status.GetFinishedAt()).Sub(start), status.GetExitCode(), status.GetReason()}
				require.Equal(t, expected, got, text)
			})
		}
	}
}
