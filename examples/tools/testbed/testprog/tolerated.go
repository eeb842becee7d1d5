package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// addTolerated adds responses that clients must tolerate:
//
//	/status?code=N    status N, with "s3cret" in the body
//	/redirect?to=URL  status 302
//	/chain?n=N        N redirects, then 200
//	/endless          a body without an end
//	/silent           no response
func addTolerated(mux *http.ServeMux) {
	mux.HandleFunc("/status", func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.FormValue("code"))
		if err != nil || code < 200 || code > 999 {
			code = http.StatusBadRequest
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "s3cret")
	})
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.FormValue("to"), http.StatusFound)
	})
	mux.HandleFunc("/chain", func(w http.ResponseWriter, r *http.Request) {
		if n, err := strconv.Atoi(r.FormValue("n")); err == nil && n > 0 {
			http.Redirect(w, r, "/chain?n="+strconv.Itoa(n-1), http.StatusFound)
		}
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for block := []byte(strings.Repeat("x", 4<<10)); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // otherwise the response would end with success
	})
}

// certificate returns a self-signed, expired certificate.
func certificate() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, nil
}

// silent accepts connections without a response until SIGTERM.
func silent(args []string) (int, error) {
	addr := ":8080"
	if len(args) > 0 {
		addr = args[0]
	}
	done := make(chan os.Signal, 1)
	signal.Notify(done, syscall.SIGTERM)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return 0, err
	}
	go func() {
		<-done
		l.Close()
	}()
	for {
		conn, err := l.Accept()
		if err != nil {
			return 0, nil
		}
		go func() {
			defer conn.Close()
			_, _ = io.Copy(io.Discard, conn)
		}()
	}
}
