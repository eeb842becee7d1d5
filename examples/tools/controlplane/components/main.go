// Components is every program of a control plane in one: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kubectl. It is the one that it is
// called as, by a link of that name, or else the one that its first argument names.
//
// They share most of their code: this program has 134 MB where five have 360, and is
// linked in half of their CPU time. The kubelet is a program of its own:
// it is measured, and must not carry what the others need.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // for CronJobs with a time zone

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's ways of logging in
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	components := map[string]func(){
		"etcd":                    func() { etcdmain.Main(os.Args) },
		"kube-apiserver":          func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) },
		"kube-controller-manager": func() { os.Exit(cli.Run(controllermanager.NewControllerManagerCommand())) },
		"kube-scheduler":          func() { os.Exit(cli.Run(scheduler.NewSchedulerCommand())) },
		"kubectl":                 func() { util.CheckErr(cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand())) },
	}
	run := components[filepath.Base(os.Args[0])]
	if run == nil && len(os.Args) > 1 {
		run = components[os.Args[1]]
		os.Args = os.Args[1:]
	}
	if run == nil {
		fmt.Fprintln(os.Stderr, "components: call it as etcd, kube-apiserver, kube-controller-manager, kube-scheduler or kubectl")
		os.Exit(2)
	}
	run()
}
