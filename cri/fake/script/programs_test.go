package script_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

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
