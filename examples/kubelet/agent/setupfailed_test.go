package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/fake"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

// A35: an agent whose root folder cannot be made, or not shared, ends, and says so at the Node.
// One whose server is away, too, ends all the same, soon.
func TestSetupFails(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"made": func(c *Config) { c.Flags.RootDir = filepath.Join(c.Flags.RootDir, "file", "root") },
		"shared": func(c *Config) {
			c.ShareRoot = func(context.Context) error { return errors.New("root folder: read-only") }
		},
	} {
		t.Run(name, func(t *testing.T) { setupFails(t, change) })
	}
}

func setupFails(t *testing.T, change func(*Config)) {
	inWorld(t, fake.Config{}, func(w *world) {
		w.api = apitest.Start(w.t)
		cfg := configOf(w.dir, func(context.Context) (*Connection, error) { return nil, errors.New("unused") })
		require.NoError(w.t, os.Mkdir(cfg.Flags.RootDir, 0o700))
		require.NoError(w.t, os.WriteFile(filepath.Join(cfg.Flags.RootDir, "file"), nil, 0o600))
		cfg.Flags.Kubeconfig, cfg.DialAPI = w.api.Kubeconfig, w.api.Dial
		change(&cfg)
		a, err := New(cfg)
		require.NoError(w.t, err)
		err = a.Run(w.t.Context())
		require.ErrorContains(w.t, err, "root folder")
		all := apitest.All[*v1.Event](w.api)
		require.Len(w.t, all, 1)
		require.Equal(w.t, "Warning KubeletSetupFailed "+err.Error(), all[0].Type+" "+all[0].Reason+" "+all[0].Message)
		require.Equal(w.t, v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "n"}, all[0].InvolvedObject)

		w.api.SetFault(func(apitest.Call) apitest.Fault { return apitest.Fault{Delay: time.Hour} })
		begun := time.Now()
		require.EqualError(w.t, a.Run(w.t.Context()), err.Error())
		require.LessOrEqual(w.t, time.Since(begun), farewell)
	})
}
