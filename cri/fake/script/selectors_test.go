package script_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/cri/fake/script"
)

// Which counts only what subject and selector fit, and fires as it says.
func TestWhich(t *testing.T) {
	for which, want := range map[string]string{
		"2nd": ".x.......", "every": "xxxxxxxxx", "every 3rd": "..x..x..x", "2nd to 4th": ".xxx.....", "from the 8th": ".......xx",
		"100% of": "xxxxxxxxx",
	} {
		play(t, which+" Version: Unknown", func(s *stage) { require.Equal(t, want, s.pattern(9), which) })
	}
}

// pattern calls Version n times and marks the failures.
func (s *stage) pattern(n int) string {
	pattern := ""
	for range n {
		_, err := s.Status(s.t.Context(), false) // is not counted
		require.NoError(s.t, err)
		mark := "."
		if s.version() != nil {
			mark = "x"
		}
		pattern += mark
	}
	return pattern
}

// Each selector, on two pods with two containers each, all calls past the first
// being known from requests, replies, or by asking.
func TestSelectors(t *testing.T) {
	for selector, want := range map[string]string{
		"":                                    "a a/app a/app+1 a/db b b/app image-app",
		"of pod a":                            "a a/app a/app+1 a/db",
		"of pod prod/b":                       "b b/app",
		"of pod test/b":                       "",
		"of uid uid-a":                        "a a/app a/app+1 a/db",
		"of sandbox":                          "a b",
		"of sandbox attempt 1":                "",
		"of sandbox of pod a":                 "a",
		"of container":                        "a/app a/app+1 a/db b/app",
		"of container app":                    "a/app a/app+1 b/app",
		"of container attempt 1":              "a/app+1",
		"of container app attempt 0 of pod a": "a/app",
		"of image image-app":                  "a/app a/app+1 b/app image-app",
	} {
		for _, watched := range []bool{true, false} {
			play(t, "every call "+selector+": take 1s", func(s *stage) {
				require.Equal(t, want, s.selected(watched), "%s %v", selector, watched)
			})
		}
	}
}

// selected tells which objects the script delays. They are made through the
// player, or behind its back.
func (s *stage) selected(watched bool) string {
	runtime := cri.RuntimeService(s.fake)
	if watched {
		runtime = s.Player
	}
	ctx, found := s.t.Context(), ""
	try := func(name string, call func() error) {
		start := time.Now()
		require.NoError(s.t, call())
		if time.Since(start) > 0 {
			if found != "" {
				found += " "
			}
			found += name
		}
	}
	for _, pod := range []struct {
		name       string
		containers []string
	}{{"a", []string{"app", "app+1", "db"}}, {"b", []string{"app"}}} {
		config := podConfig("prod", pod.name)
		sandbox, err := runtime.RunPodSandbox(ctx, config, "")
		require.NoError(s.t, err)
		try(pod.name, func() error { _, err := s.PodSandboxStatus(ctx, sandbox, false); return err })
		for _, full := range pod.containers {
			name, attempt := full, uint32(0)
			if full == "app+1" {
				name, attempt = "app", 1
			}
			id, err := runtime.CreateContainer(ctx, sandbox, containerConfig(name, attempt), config)
			require.NoError(s.t, err)
			try(pod.name+"/"+full, func() error { return s.StartContainer(ctx, id) })
		}
	}
	try("image-app", func() error {
		_, err := s.PullImage(ctx, &runtimeapi.ImageSpec{Image: "sha256:x", UserSpecifiedImage: "image-app"}, nil, nil)
		return err
	})
	return found
}

// Calls that make an object are about it, and removed objects are still known.
func TestObjectsFromRequests(t *testing.T) {
	var seen []script.Call
	cfg := script.Config{Observe: func(c script.Call) { seen = append(seen, c) }}
	playOn(t, "every CreateContainer of pod a: take 1s\nevery RemoveContainer of container app: take 2s", fake.Config{AnyImage: true}, cfg, func(s *stage) {
		ctx := s.t.Context()
		sandbox, err := s.RunPodSandbox(ctx, podConfig("prod", "a"), "")
		require.NoError(t, err)
		var id string
		require.NoError(t, takes(t, time.Second, func() error {
			id, err = s.CreateContainer(ctx, sandbox, containerConfig("app", 0), podConfig("prod", "a"))
			return err
		}))
		for range 2 {
			require.NoError(t, takes(t, 2*time.Second, func() error { return s.RemoveContainer(ctx, id) }))
		}
		require.NoError(t, s.RemoveContainer(ctx, "unknown"))
		_, err = s.PullImage(ctx, &runtimeapi.ImageSpec{Image: "x"}, nil, podConfig("prod", "a"))
		require.NoError(t, err)
		_, err = s.ContainerStatus(ctx, id, false)
		require.True(t, cri.IsNotFound(err))
	})
	app := script.Object{Kind: script.ContainerKind, Container: "app", Namespace: "prod", Pod: "a", UID: "uid-a", Image: "image-app"}
	require.Len(t, seen, 7)
	require.Equal(t, script.Object{Kind: script.SandboxKind, Namespace: "prod", Pod: "a", UID: "uid-a"}, seen[0].Object)
	require.Equal(t, app, seen[1].Object)
	require.Equal(t, []int{0}, seen[1].Rules)
	require.Equal(t, app, seen[3].Object)
	require.Equal(t, 2*time.Second, seen[3].Duration)
	require.Equal(t, script.Object{}, seen[4].Object)
	require.Equal(t, script.Object{Namespace: "prod", Pod: "a", UID: "uid-a", Image: "x"}, seen[5].Object)
	require.Equal(t, "ContainerStatus", seen[6].Name)
	require.True(t, cri.IsNotFound(seen[6].Err))
}
