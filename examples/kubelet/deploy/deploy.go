// Package deploy has the files that install examples/kubelet on a node:
//
//	kubelet.service    a unit for a node without upstream's packages
//	20-podwright.conf  a drop-in for the kubelet.service of a kubeadm node
//	Containerfile      an image
//
// docs/kubelet.md and docs/cluster.md have the commands.
package deploy

import (
	"embed"
	"io/fs"
)

//go:embed kubelet.service 20-podwright.conf
var units embed.FS

// Units returns kubelet.service and 20-podwright.conf.
func Units() fs.FS { return units }
