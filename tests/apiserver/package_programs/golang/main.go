// The same program as that in TypeScript, which prints its outputs as JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"example.com/pulumi-kindling/sdk/go/kindling"
	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

func program(ctx *pulumi.Context) error {
	namespace := pulumi.String(os.Getenv("NAMESPACE"))
	cache, err := kindling.NewCache(ctx, "sessions", &kindling.CacheArgs{
		Namespace: namespace,
		Size:      pulumi.IntRef(2),
		Port:      pulumi.IntRef(11300),
		Binding:   pulumi.String("ConfigMap"),
	})
	if err != nil {
		return err
	}
	database, err := kindling.NewDatabase(ctx, "orders", &kindling.DatabaseArgs{
		Namespace:    namespace,
		StorageSize:  pulumi.String("2Gi"),
		Spec:         pulumi.Map{"parameters": pulumi.StringMap{"work_mem": pulumi.String("8MB")}},
		WaitForReady: pulumi.BoolRef(false),
	}, pulumi.DependsOn([]pulumi.Resource{cache}))
	if err != nil {
		return err
	}
	consumer, err := kindling.NewConsumer(ctx, "events", &kindling.ConsumerArgs{
		Namespace:        namespace,
		ServerAddress:    pulumi.String("pulsar+ssl://broker.example"),
		Topic:            pulumi.String("orders"),
		SubscriptionName: pulumi.String("shop"),
		Replicas:         1,
		TokenSecretName:  pulumi.String("token"),
		WaitForReady:     pulumi.BoolRef(false),
	})
	if err != nil {
		return err
	}
	ctx.Export("cache", pulumi.Map{
		"host": cache.Host, "port": cache.Port, "configMapName": cache.ConfigMapName,
	})
	ctx.Export("database", pulumi.Map{
		"host": database.Host, "port": database.Port, "secretName": database.SecretName,
	})
	ctx.Export("consumer", pulumi.Map{
		"host": consumer.Host, "port": consumer.Port, "secretName": consumer.SecretName,
	})
	return nil
}

func run() error {
	ctx := context.Background()
	stack, err := auto.UpsertStackInlineSource(
		ctx, "golang", "package", program, auto.WorkDir(os.Getenv("WORKDIR")),
	)
	if err != nil {
		return err
	}
	done, err := stack.Up(ctx)
	if err != nil {
		return err
	}
	values := map[string]any{}
	for name, output := range done.Outputs {
		values[name] = output.Value
	}
	return json.NewEncoder(os.Stdout).Encode(values)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
