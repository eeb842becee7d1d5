// Kubelet is the upstream kubelet, built from its Go module. It is the reference
// that the golden requests of cri/pods are recorded from, and the peer of
// side-by-side runs. It takes the upstream kubelet's flags and configuration.
//
//	GOWORK=off go build -C examples/controlplane -o /tmp/kubelet ./kubelet
//
// The module is in no workspace, since its replacements would reach every other
// module there. For another version, change that of k8s.io/kubernetes (v1.x.y) and
// of all replacements (v0.x.y) in go.mod, and run GOWORK=off go mod tidy there.
package main

import (
	"context"
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	os.Exit(cli.Run(app.NewKubeletCommand(context.Background())))
}
