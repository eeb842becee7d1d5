package fake_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/podwright/podwright/cri/critest"
	"github.com/podwright/podwright/cri/fake"
)

// TestConformance runs the conformance suite. Package cri/streams runs it over gRPC, with sessions.
func TestConformance(t *testing.T) {
	id, digest := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	critest.Run(t, critest.Config{Around: synctest.Test, Start: func(t *testing.T) critest.Subject {
		rt := start(t, fake.Config{Programs: critest.Programs, Exec: critest.Programs, Pull: registry(t,
			fake.RemoteImage{Image: fake.Image{Name: "critest.test/busybox:1"}},
			fake.RemoteImage{Image: fake.Image{Name: "critest.test/other:1", ID: id, Digest: digest}},
			fake.RemoteImage{Image: fake.Image{Name: "critest.test/other@" + digest, ID: id, Digest: digest}},
		)})
		return critest.Subject{Runtime: rt, Images: rt, Image: "critest.test/busybox:1", OtherImage: "critest.test/other:1", Hardened: true}
	}})
}
