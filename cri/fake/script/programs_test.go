package script_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/fake/script"
)

func fakeWithImages() fake.Config { return fake.Config{AnyImage: true} }

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

// Rules about runs choose by count and object; the rest is somebody else's.
func TestProgramsChoose(t *testing.T) {
	text := "1st run of container app: exit 1\nrun of pod a of container app attempt 2: exit 2\n2nd run: Unknown \"not found\"\n2nd run of container app: exit 3"
	parsed, err := script.Parse(text)
	require.NoError(t, err)
	on := fakeWithImages()
	on.Programs = parsed.Programs(fake.Always(fake.Exit(9)))
	on.Exec = parsed.Programs(fake.Always(fake.Exit(8)))
	playOn(t, "", on, script.Config{}, func(s *stage) {
		a, b := s.pod("a"), s.pod("b")
		codes := []int32{}
		for _, c := range []struct {
			sandbox, name string
			attempt       uint32
		}{{a, "app", 0}, {a, "db", 0}, {b, "app", 2}, {b, "app", 3}, {a, "app", 2}} {
			id := s.container(c.sandbox, c.name, c.attempt)
			err := s.fake.StartContainer(s.t.Context(), id)
			require.Equal(t, c.name == "db", err != nil)
			if err != nil {
				require.ErrorContains(t, err, "not found")
			}
			time.Sleep(time.Second)
			codes = append(codes, s.status(id).GetExitCode())
		}
		require.Equal(t, []int32{1, 128, 3, 9, 2}, codes)
	})
}

func TestProgramsStartSlowly(t *testing.T) {
	play(t, "every run: take 3s, then Unknown \"no\"", func(s *stage) {
		id := s.container(s.pod("a"), "app", 0)
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
		defer cancel()
		require.Error(t, takes(t, time.Second, func() error { return s.fake.StartContainer(ctx, id) }))
		other := s.container(s.pod("b"), "app", 0)
		require.ErrorContains(t, takes(t, 3*time.Second, func() error { return s.fake.StartContainer(s.t.Context(), other) }), "no")
		require.Equal(t, "StartError", s.status(other).GetReason())
	})
	_, err := script.Script{Rules: []script.Rule{{}}}.Programs(nil)(t.Context(), &fake.Process{})
	require.ErrorContains(t, err, "Rules[0]")
}

// Reason and text of an exit are in the container's status.
func TestProgramsExplain(t *testing.T) {
	play(t, "every run: exit 1 Cheese \"out of it\"", func(s *stage) {
		id := s.started(s.pod("a"), "app")
		synctest.Wait()
		require.Equal(t, "Cheese", s.status(id).GetReason())
		require.Equal(t, "out of it", s.status(id).GetMessage())
	})
}
