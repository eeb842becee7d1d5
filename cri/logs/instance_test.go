package logs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChoose(t *testing.T) {
	for _, tc := range []struct {
		name     string
		in       Instances
		previous bool
		want     string
		is       error
		says     string
	}{
		{"previous", Instances{State: Running, ID: "b", LastID: "a"}, true, "a", nil, ""},
		{"previous while waiting", Instances{State: Waiting, LastID: "a"}, true, "a", nil, ""},
		{"no previous", Instances{Container: "app", State: Running, ID: "b"}, true, "", ErrNoPrevious, `"app" not found`},
		{"running", Instances{State: Running, ID: "b", LastID: "a"}, false, "b", nil, ""},
		{"terminated", Instances{State: Terminated, ID: "b", LastID: "a"}, false, "b", nil, ""},
		{"terminated without ID", Instances{State: Terminated, LastID: "a"}, false, "a", nil, ""},
		{"terminated without any", Instances{State: Terminated}, false, "", ErrNoLogs, "has terminated"},
		{"running without ID is not the one before", Instances{State: Running, LastID: "a"}, false, "", ErrNoLogs, "running"},
		{"waits between crashes", Instances{State: Waiting, Reason: "CrashLoopBackOff", LastID: "a"}, false, "a", nil, ""},
		{"waits", Instances{Container: "app", State: Waiting, Reason: "ContainerCreating"}, false, "", ErrNoLogs, `"app" is waiting to start: ContainerCreating`},
		{"waits for its image", Instances{State: Waiting, Reason: "ErrImagePull"}, false, "", ErrNoLogs, "ErrImagePull: image can't be pulled"},
		{"waits longer for its image", Instances{State: Waiting, Reason: "ImagePullBackOff"}, false, "", ErrNoLogs, "trying and failing to pull image"},
		{"waits for nothing known", Instances{State: Waiting}, false, "", ErrNoLogs, "is waiting to start"},
		{"not in the status", Instances{Container: "app"}, false, "", ErrNoLogs, `"app" is not available`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.in.Choose(tc.previous)
			require.Equal(t, tc.want, got)
			require.ErrorIs(t, err, tc.is)
			if tc.says != "" {
				require.ErrorContains(t, err, tc.says)
			}
		})
	}
}
