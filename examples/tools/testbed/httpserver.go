package main

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
)

type httpServer struct {
	addr string
	srv  *http.Server
	done chan error
}

func serveHTTP(ctx context.Context, network, address string, handler http.Handler) (*httpServer, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	s := &httpServer{
		addr: l.Addr().String(),
		srv:  &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)},
		done: make(chan error, 1),
	}
	go func() { s.done <- s.srv.Serve(l) }()
	return s, nil
}

func (s *httpServer) close() error {
	err := s.srv.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
