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

// A35: an agent whose root folder cannot be made ends, and says so at the Node. One whose
// server is away, too, ends all the same, soon.
func TestSetupFails(t *testing.T) {
	inWorld(t, fake.Config{}, func(w *world) {
		w.api = apitest.Start(w.t)
		file := filepath.Join(w.dir, "file")
		require.NoError(w.t, os.WriteFile(file, nil, 0o600))
		cfg := configOf(w.dir, func(context.Context) (*Connection, error) { return nil, errors.New("unused") })
		cfg.Flags.RootDir = filepath.Join(file, "root")
		cfg.Flags.Kubeconfig, cfg.DialAPI = w.api.Kubeconfig, w.api.Dial
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
