package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podwright/podwright/examples/kubelet/apiserver"
	"github.com/podwright/podwright/examples/kubelet/apiserver/apitest"
)

// A copy of some objects of a server that follows them.
func ExampleFeed() {
	server := apitest.New()
	server.Put(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}, Data: map[string]string{"color": "green"}})
	kubeconfig, stop := serve(server)
	defer stop()

	client, err := apiserver.New(apiserver.Config{Kubeconfig: kubeconfig, UserAgent: "example/1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	feed, err := apiserver.NewFeed(apiserver.FeedConfig[*v1.ConfigMap, *v1.ConfigMapList]{
		Resource:      client.ConfigMaps("default"),
		FieldSelector: "metadata.name=settings",
		OnChange:      func(changed []types.NamespacedName) { fmt.Println("changed:", changed[0]) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- client.Run(ctx) }()
	go func() { done <- feed.Run(ctx) }()
	<-feed.Synced()
	settings, _ := feed.Get("default", "settings")
	fmt.Println("color:", settings.Data["color"])
	cancel()
	fmt.Println(<-done, <-done)
	// Unordered output:
	// changed: default/settings
	// color: green
	// <nil> <nil>
}

// serve serves a handler, and writes a kubeconfig that leads to it.
func serve(h http.Handler) (kubeconfig string, stop func()) {
	server := httptest.NewServer(h)
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(apitest.Kubeconfig(server.URL, "token: secret")), 0o600); err != nil {
		panic(err)
	}
	return kubeconfig, func() {
		server.Close()
		_ = os.RemoveAll(dir) // it is temporary
	}
}
