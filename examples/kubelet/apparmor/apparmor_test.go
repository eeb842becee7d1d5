package apparmor

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// AppArmor is enabled only if the kernel parameter is set and profiles can be loaded.
func TestEnabled(t *testing.T) {
	profiles := &fstest.MapFile{}
	said := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	const dir, parameter = "kernel/security/apparmor/profiles", "module/apparmor/parameters/enabled"
	for name, tc := range map[string]struct {
		sys  fstest.MapFS
		want bool
	}{
		"enabled":     {fstest.MapFS{dir: profiles, parameter: said("Y\n")}, true},
		"turned off":  {fstest.MapFS{dir: profiles, parameter: said("N\n")}, false},
		"not mounted": {fstest.MapFS{parameter: said("Y\n")}, false},
		"not there":   {fstest.MapFS{}, false},
		"empty":       {fstest.MapFS{dir: profiles, parameter: said("")}, false},
	} {
		require.Equal(t, tc.want, Enabled(tc.sys), name)
	}
}
