package script_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
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

// Each selector, on two pods whose objects the player has not seen made.
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
		play(t, "every call "+selector+": take 1s", func(s *stage) { require.Equal(t, want, s.selected(), selector) })
	}
}

// selected returns the objects that the script delays. They are made without the player.
func (s *stage) selected() string {
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
		sandbox := s.pod(pod.name)
		try(pod.name, func() error { _, err := s.PodSandboxStatus(ctx, sandbox, false); return err })
		for _, full := range pod.containers {
			name, attempt := full, uint32(0)
			if full == "app+1" {
				name, attempt = "app", 1
			}
			id := s.container(sandbox, name, attempt)
			try(pod.name+"/"+full, func() error { return s.StartContainer(ctx, id) })
		}
	}
	try("image-app", func() error {
		_, err := s.PullImage(ctx, &runtimeapi.ImageSpec{Image: "sha256:x", UserSpecifiedImage: "image-app"}, nil, nil)
		return err
	})
	return found
}
