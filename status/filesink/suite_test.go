package filesink_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/status"
	"github.com/podwright/podwright/status/filesink"
	"github.com/podwright/podwright/status/statustest"
)

// filesink implements the contract of a status.Sink, as seen by readers of the file.
func TestSuite(t *testing.T) {
	statustest.Run(t, func(t testing.TB) statustest.Subject {
		path := filepath.Join(t.TempDir(), "status", "status.json")
		require.NoError(t, os.Mkdir(filepath.Dir(path), 0o750))
		s, err := filesink.New(filesink.Config{Path: path})
		require.NoError(t, err)
		pod := func(namespace, name string) *v1.Pod {
			list := read(t, path)
			for i := range list.Items {
				if p := &list.Items[i]; p.Namespace == namespace && p.Name == name {
					return p
				}
			}
			return nil
		}
		return statustest.Subject{
			Sink: s,
			Create: func(p *v1.Pod) *v1.Pod {
				require.NoError(t, s.Put(p.DeepCopy()))
				return pod(p.Namespace, p.Name)
			},
			Pod: pod,
			Change: func(namespace, name string, change func(*v1.PodStatus)) {
				p := pod(namespace, name)
				changed := p.Status.DeepCopy()
				change(changed)
				_, err := s.Patch(t.Context(), status.Ref{Namespace: namespace, Name: name, UID: p.UID}, &p.Status, changed)
				require.NoError(t, err)
			},
			Remove: func(namespace, name string) { require.NoError(t, s.Remove(pod(namespace, name))) },
			Fail: func(fail bool) { // the folder of the file is missing
				from, to := filepath.Dir(path), filepath.Dir(path)+".away"
				if !fail {
					from, to = to, from
				}
				require.NoError(t, os.Rename(from, to))
			},
		}
	})
}
