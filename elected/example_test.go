package elected_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/soloist-dev/soloist"
	"github.com/soloist-dev/soloist/elected"
	"github.com/soloist-dev/soloist/store/memstore"
)

func ExampleElector_Handler() {
	client, err := soloist.New(memstore.New(), soloist.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	leader := elected.New(client, "api")
	ctx, resign := context.WithCancel(context.Background())
	defer resign() // after server.Shutdown
	go func() {
		if err := leader.Run(ctx); err != nil {
			log.Print(err)
		}
	}()
	server := http.Server{Addr: ":8080", Handler: leader.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "written with token", soloist.LeaseFrom(r.Context()).Token())
	}))}
	if err := server.ListenAndServe(); err != nil {
		log.Print(err)
	}
}
