import * as automation from "@pulumi/pulumi/automation";
import * as kindling from "./sdk";

const namespace = process.env.NAMESPACE!;

async function program(): Promise<Record<string, unknown>> {
    const cache = new kindling.Cache("sessions", { namespace, size: 2, port: 11300, binding: "ConfigMap" });
    const database = new kindling.Database(
        "orders",
        { namespace, storageSize: "2Gi", spec: { parameters: { work_mem: "8MB" } }, waitForReady: false },
        { dependsOn: [cache] },
    );
    const consumer = new kindling.Consumer("events", {
        namespace,
        serverAddress: "pulsar+ssl://broker.example",
        topic: "orders",
        subscriptionName: "shop",
        replicas: 1,
        tokenSecretName: "token",
        waitForReady: false,
    });
    return {
        cache: { host: cache.host, port: cache.port, configMapName: cache.configMapName },
        database: { host: database.host, port: database.port, secretName: database.secretName },
        consumer: { host: consumer.host, port: consumer.port, secretName: consumer.secretName },
    };
}

async function main(): Promise<void> {
    const stack = await automation.LocalWorkspace.createOrSelectStack(
        { stackName: "typescript", projectName: "package", program },
        { workDir: process.env.WORKDIR },
    );
    const done = await stack.up();
    const values = Object.entries(done.outputs).map(([name, output]) => [name, output.value]);
    console.log(JSON.stringify(Object.fromEntries(values)));
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
