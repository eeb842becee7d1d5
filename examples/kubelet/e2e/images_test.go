package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/examples/kubelet/agent"
	"github.com/podwright/podwright/examples/testbed/tb"
)

// C43: an image that nobody has used for long goes, one that a container uses stays,
// and so does the one of sandboxes, which containerd 1.6 does not pin.
// The agent is in this process, since a kubelet looks only every five minutes. What
// it removes is pulled again for the other tests.
func TestUnusedImagesAreRemoved(t *testing.T) {
	names := tb.Images(t)
	for _, rt := range tb.Turns(t) {
		t.Run(rt.Name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			endpoint := cri.ClientConfig{Endpoint: rt.Endpoint}
			client, err := cri.DialImages(t.Context(), endpoint)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, client.Close()) })
			pull := func() {
				for _, name := range []string{names.Pause, names.Busybox, names.Testprog, names.Testprog2} {
					_, err := client.PullImage(context.Background(), &runtimeapi.ImageSpec{Image: name}, nil, nil)
					require.NoError(t, err, name)
				}
			}
			there := func(name string) (bool, error) {
				reply, err := client.ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: name}, false)
				return reply.GetImage() != nil, err
			}
			pull()
			t.Cleanup(pull)
			manifest := filepath.Join(dir, "manifests", "stays.yaml")
			require.NoError(t, os.Mkdir(filepath.Dir(manifest), 0o755))
			data, err := yaml.Marshal(newPod("stays", shell("main", names.Busybox, untilTerm)))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(manifest, data, 0o644))
			cfg := guestConfig("collector-"+rt.Name, dir, agent.Dial(endpoint, endpoint))
			cfg.ImageGCInterval = time.Second
			k := &cfg.Kubelet
			*k.ImageGCHighThresholdPercent = 100
			k.ImageMinimumGCAge.Duration, k.ImageMaximumGCAge.Duration = time.Second, 3*time.Second
			a, err := agent.New(cfg)
			require.NoError(t, err)
			g := &guest{agent: a, manifests: filepath.Dir(manifest), pods: filepath.Join(dir, "root", "pods")}
			g.start()
			id := g.running(t)
			wait(t, 20*time.Second, "the unused image goes", func() error {
				if found, err := there(names.Testprog2); found || err != nil {
					return fmt.Errorf("there: %t, %w", found, err)
				}
				return nil
			})
			hold(t, 2*time.Second, "the used one stays, and that of sandboxes", func() error {
				for _, name := range []string{names.Busybox, names.Pause} {
					if found, err := there(name); !found || err != nil {
						return fmt.Errorf("%s there: %t, %w", name, found, err)
					}
				}
				return nil
			})
			require.Equal(t, id, g.running(t))
			require.NoError(t, os.Remove(manifest))
			wait(t, 30*time.Second, "the pod goes", func() error { return emptyFolder(g.pods) })
			g.end(t)
		})
	}
}
