// Kubelet is the upstream kubelet, built from its Go module. It is the reference
// that the golden requests of cri/pods are recorded from, and the peer of
// side-by-side runs. It takes the upstream kubelet's flags and configuration.
//
//	GOWORK=off go run -C examples/tools/controlplane . -build kubelet
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
