package imageref

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var (
	sha256 = "sha256:" + strings.Repeat("0a", 32)
	sha512 = "sha512:" + strings.Repeat("0a", 64)
)

func TestNormalize(t *testing.T) {
	for in, want := range map[string]string{
		"busybox":                            "busybox:latest",
		"busybox:1.36":                       "busybox:1.36",
		"library/busybox":                    "library/busybox:latest",
		"docker.io/library/busybox":          "docker.io/library/busybox:latest",
		"registry.example.com:5000/a/b":      "registry.example.com:5000/a/b:latest",
		"registry.example.com:5000/a/b:v1":   "registry.example.com:5000/a/b:v1",
		"localhost/a":                        "localhost/a:latest",
		"localhost:5000/a":                   "localhost:5000/a:latest",
		"127.0.0.1:5000/a:x_Y.z-1":           "127.0.0.1:5000/a:x_Y.z-1",
		"[fd00::1]:5000/a":                   "[fd00::1]:5000/a:latest",
		"[fd00::1]/a":                        "[fd00::1]/a:latest",
		"UPPER/a":                            "UPPER/a:latest", // a part with capitals is a domain
		"a__b/c.d/e---f":                     "a__b/c.d/e---f:latest",
		"busybox@" + sha256:                  "busybox@" + sha256,
		"busybox:1@" + sha512:                "busybox:1@" + sha512,
		"host:1/a@" + sha256:                 "host:1/a@" + sha256,
		"sha256:" + strings.Repeat("0a", 32): "sha256:" + strings.Repeat("0a", 32),
		strings.Repeat("a", 247):             strings.Repeat("a", 247) + ":latest", // with library/ it has 255
		"a:" + strings.Repeat("t", 128):      "a:" + strings.Repeat("t", 128),
		"0/1:_":                              "0/1:_",
		"registry.k8s.io/pause:3.10":         "registry.k8s.io/pause:3.10",
		"a.b-c.d/x":                          "a.b-c.d/x:latest",
	} {
		got, err := Normalize(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got)
		again, err := Normalize(got)
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, in := range []string{
		"", " ", "UPPER", "a/UPPER", "a b", "a:", "a@", "a@sha256", "a@sha256:00", "@" + sha256, ":tag",
		"a@" + strings.ToUpper(sha256), "a@sha1:" + strings.Repeat("0", 40), "a@" + sha256 + "@" + sha256,
		"/a", "a/", "a//b", "-a", "a-", "_a", "a_", "a___b", "a..b", "a.-b", "a:.x", "a:-x", "a:x:y", "a:x/y:",
		"host:/a", "host:x/a", "ho_st.x/a", "-host.x/a", "host-.x/a", "host..x/a", "[fd00::1/a", "[]/a", "[x]/a", "[::1]x/a",
		"https://registry.example.com/a", "a\n", "a\x00", "ä", "a:ä",
		strings.Repeat("a", 248), "a:" + strings.Repeat("t", 129), strings.Repeat("0a", 32),
	} {
		_, err := Parse(in)
		require.Error(t, err, in)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"busybox", "host:5000/a/b:tag", "a@" + sha256, "[::1]:1/a", "UPPER", "a:b@c", "a--b/c__d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := Parse(s)
		if err != nil {
			return
		}
		require.Equal(t, s, name.String())
		normal, err := Normalize(s)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(normal, s))
		again, err := Normalize(normal)
		require.NoError(t, err)
		require.Equal(t, normal, again)
	})
}

func TestCanonical(t *testing.T) {
	for in, want := range map[string]string{
		"busybox":                         "docker.io/library/busybox",
		"team/app:1":                      "docker.io/team/app",
		"docker.io/busybox@" + sha256:     "docker.io/library/busybox",
		"docker.io/library/busybox":       "docker.io/library/busybox",
		"index.docker.io/library/busybox": "docker.io/library/busybox",
		"registry.k8s.io/pause:3.10":      "registry.k8s.io/pause",
		"localhost/a":                     "localhost/a",
		"127.0.0.1:5000/a:x":              "127.0.0.1:5000/a",
	} {
		name, err := Parse(in)
		require.NoError(t, err)
		require.Equal(t, want, name.Canonical(), in)
		require.Equal(t, strings.HasPrefix(want, "docker.io/"), name.OnDefaultRegistry(), in)
		again, err := Parse(want)
		require.NoError(t, err)
		require.Equal(t, want, again.Canonical())
	}
}

func TestFull(t *testing.T) {
	for in, want := range map[string]string{
		"busybox":                      "docker.io/library/busybox:latest",
		"busybox:1":                    "docker.io/library/busybox:1",
		"docker.io/library/busybox:1":  "docker.io/library/busybox:1",
		"r.io:5000/a:1@" + sha256:      "r.io:5000/a@" + sha256,
		"docker.io/team/app@" + sha256: "docker.io/team/app@" + sha256,
	} {
		name, err := Parse(in)
		require.NoError(t, err)
		require.Equal(t, want, name.Full(), in)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
