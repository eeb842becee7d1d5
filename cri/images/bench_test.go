package images

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/podwright/podwright/cri/images/credentials"
	"github.com/podwright/podwright/cri/images/records"
)

// BenchmarkEnsurePresent is what a container costs whose image is there: without
// records, with an image that nobody pulled, and with one that a secret pulled.
func BenchmarkEnsurePresent(b *testing.B) {
	source := credentials.SourceFunc(func(context.Context, *v1.Pod, string) ([]credentials.Credential, error) {
		c := users("me")[0]
		c.Origin.Secret = &credentials.SecretRef{UID: "1", Namespace: "ns", Name: "s"}
		return []credentials.Credential{c}, nil
	})
	for _, bc := range []struct {
		name    string
		records bool
		pull    bool
	}{{"NoRecords", false, false}, {"Preloaded", true, false}, {"Pulled", true, true}} {
		b.Run(bc.name, func(b *testing.B) {
			s := newService("a:1")
			cfg := Config{Service: s, Credentials: source}
			if bc.records {
				store, err := records.Open(records.Config{Dir: b.TempDir()})
				require.NoError(b, err)
				cfg.Records = store
			}
			m, err := New(cfg)
			require.NoError(b, err)
			if bc.pull {
				_, err = m.Ensure(b.Context(), request("u", "b:1", v1.PullAlways))
				require.NoError(b, err)
			}
			image := map[bool]string{false: "a:1", true: "b:1"}[bc.pull]
			r := request("u", image, v1.PullIfNotPresent)
			for b.Loop() {
				if _, err := m.Ensure(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
