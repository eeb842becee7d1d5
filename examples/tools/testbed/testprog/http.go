package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
)

// serve responds to /healthz and gRPC health checks with success until a request to /fail, and
// then with failure (500) until a request to /ok. /exit?code=N ends the program with code N.
func serve(args []string, secure bool) (int, error) {
	addr := ":8080"
	if len(args) > 0 {
		addr = args[0]
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	exit := make(chan int, 1)
	failed := make(chan error, 1)
	srv := &http.Server{Addr: addr, Handler: routes(exit), Protocols: &http.Protocols{}}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	listen := srv.ListenAndServe
	if secure {
		config, err := certificate()
		if err != nil {
			return 0, err
		}
		srv.TLSConfig = config
		listen = func() error { return srv.ListenAndServeTLS("", "") }
	}
	go func() { failed <- listen() }()
	defer srv.Close()
	fmt.Println("serving", addr)

	select {
	case <-ctx.Done():
		return 0, nil
	case code := <-exit:
		return code, nil
	case err := <-failed:
		return 0, err
	}
}

func routes(exit chan<- int) http.Handler {
	var failing atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if failing.Load() {
			http.Error(w, "failing", http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("/fail", func(http.ResponseWriter, *http.Request) { failing.Store(true) })
	mux.HandleFunc("/ok", func(http.ResponseWriter, *http.Request) { failing.Store(false) })
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, os.Getenv("TESTPROG_VERSION"))
	})
	mux.HandleFunc("/exit", func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.FormValue("code"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		select {
		case exit <- code:
		default: // already ending
		}
	})
	mux.HandleFunc(healthPath, health(&failing))
	addTolerated(mux)
	return mux
}
