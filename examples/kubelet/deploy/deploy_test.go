package deploy

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/podwright/podwright/examples/kubelet/systemd"
)

const program = "/usr/local/bin/podwright-kubelet"

// service returns the settings of a unit's section [Service], in their order.
func service(t *testing.T, name string) (out []string) {
	text, err := fs.ReadFile(Units(), name)
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n[Service]\n")
	require.True(t, found, name)
	section, _, _ = strings.Cut(section, "\n[")
	for line := range strings.Lines(section) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	return out
}

// The drop-in replaces the command, and otherwise has settings of the unit. The agent accepts the
// watchdog's timeout.
func TestUnits(t *testing.T) {
	unit, dropIn := service(t, "kubelet.service"), service(t, "20-podwright.conf")
	require.Contains(t, dropIn, "ExecStart=")
	own := dropIn[:slices.Index(dropIn, "ExecStart=")]
	require.Subset(t, unit, own)
	require.Subset(t, own, []string{"Type=notify", "KillMode=process", "Delegate=yes"})
	i := slices.IndexFunc(own, func(s string) bool { return strings.HasPrefix(s, "WatchdogSec=") })
	require.GreaterOrEqual(t, i, 0)
	timeout, err := time.ParseDuration(strings.TrimPrefix(own[i], "WatchdogSec="))
	require.NoError(t, err)
	_, err = systemd.New(systemd.Config{Check: func() error { return nil }, Timeout: timeout})
	require.NoError(t, err)
}

// systemd accepts the unit, alone and with the drop-in.
func TestUnitsAreValid(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("needs systemd-analyze")
	}
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "kubelet.service.d"), 0o755))
	for _, file := range []string{"kubelet.service", "20-podwright.conf"} {
		text, err := fs.ReadFile(Units(), file)
		require.NoError(t, err)
		to := filepath.Join(dir, file)
		if file != "kubelet.service" {
			to = filepath.Join(dir, "kubelet.service.d", file)
		}
		require.NoError(t, os.WriteFile(to, []byte(strings.ReplaceAll(string(text), program, "/bin/true")), 0o644))
		cmd := exec.Command(analyze, "verify", "--man=no", filepath.Join(dir, "kubelet.service"))
		cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.Empty(t, string(out))
	}
}
